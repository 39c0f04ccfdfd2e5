#include "model/weight_table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "base/mutex.h"
#include "model/expert_names.h"
#include "model/integer_layout.h"
#include "model/weight_parts.h"

namespace sluice {
namespace {

constexpr size_t kNamesInASentence = 3;
// Scales for 8-bit caches, which are ignored: caches here have no 8-bit format.
constexpr std::string_view kCacheScales[] = {".q_scale", ".k_scale", ".v_scale"};

// Dimensions of 1 do not count: files store a scalar as [] or [1], a vector as [n] or [1, n], and the taps of a
// convolution as [n, 1, taps].
std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

Status check_shape(const Checkpoint& checkpoint, const StoredTensor& stored, const ElementView& view,
                   const std::vector<int64_t>& want) {
  if (without_ones(view.shape) == without_ones(want)) return {};
  const std::string packed =
      view.format == stored.format ? "" : cat(", ", format_name(view.format), " ", format_shape(view.shape));
  return error(ErrorKind::invalid, checkpoint.files()[stored.file], ": ", printable(stored.name), " is ",
               format_name(stored.format), " ", format_shape(stored.shape), packed, ": want ", format_shape(want));
}

// All of a stored tensor, which has this shape and format.
Result<TensorSource> whole_tensor(const Checkpoint& checkpoint, const StoredTensor& stored, const WeightShape& shape,
                                  Format format, FoundWeightParts beside) {
  TensorSource whole;
  whole.shape = shape;
  whole.format = format;
  whole.grid = beside.grid;
  whole.parts = std::move(beside.parts);
  if (!format_info(whole.format).decodable && whole.parts.empty())
    return error(ErrorKind::unsupported, checkpoint.files()[stored.file], ": ", printable(stored.name), " is ",
                 format_name(stored.format), ": want a format that is computed with");
  whole.row_stride = row_bytes(whole.format, shape.columns);
  whole.expert_stride = whole.row_stride * whole.shape.rows;
  whole.bytes = stored.bytes.data();
  whole.owner = checkpoint.owner(stored);
  return whole;
}

// All names that the table gives to weights in this dialect.
std::unordered_set<std::string> names_of(const WeightTable& table, Dialect dialect) {
  std::unordered_set<std::string> names;
  for (const WeightRow& row : table.rows())
    for (const SourceName& source : row.sources(dialect)) names.insert(source.name);
  return names;
}

// The shape of the stored tensor with the weight, or with one expert of it.
WeightShape shape_of_stored(const WeightShape& weight, const SourceName& source) {
  WeightShape shape = weight;
  if (source.total_rows != 0) shape.rows = source.total_rows;
  if (source.one_matrix) shape.rows *= shape.experts;
  if (source.one_matrix || is_of_each_expert(source.name)) shape.experts = 1;
  return shape;
}

// Joins experts that are stored as one tensor each into one weight. Their formats and the kinds of their scales must
// agree.
Result<TensorSource> stacked(const Checkpoint& checkpoint, const std::vector<const StoredTensor*>& stored,
                             const std::vector<TensorSource>& experts) {
  TensorSource all = experts[0];
  all.shape.experts = static_cast<uint32_t>(experts.size());
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (size_t i = 0; i < experts.size(); ++i) {
    const TensorSource& one = experts[i];
    const bool alike = std::ranges::equal(one.parts, all.parts, [](const WeightPart& a, const WeightPart& b) {
      return a.role == b.role && a.format == b.format && a.row_stride == b.row_stride && a.block_rows == b.block_rows &&
             a.block_columns == b.block_columns && a.grid == b.grid;
    });
    if (one.format != all.format || one.grid != all.grid || !alike)
      return error(ErrorKind::unsupported, checkpoint.files()[stored[i]->file], ": ", printable(stored[i]->name),
                   " is ", format_name(one.format), " with ", one.parts.size(), " parts: want ",
                   format_name(all.format), " with ", all.parts.size(), " as ", printable(stored[0]->name));
    all.experts.push_back(one.bytes);
    owners->push_back(one.owner);
    for (size_t part = 0; part < one.parts.size(); ++part) {
      all.parts[part].experts.push_back(one.parts[part].bytes);
      owners->push_back(one.parts[part].owner);
    }
  }
  for (size_t part = 0; part < all.parts.size(); ++part) {
    std::vector<ColumnGroups> groups;
    groups.reserve(experts.size());
    for (const TensorSource& one : experts)
      groups.push_back(one.parts[part].groups.empty() ? nullptr : one.parts[part].groups[0]);
    if (std::ranges::any_of(groups, [](const ColumnGroups& one) { return one != nullptr; }))
      all.parts[part].groups = std::move(groups);
  }
  all.owner = std::move(owners);
  return all;
}

// Divides a matrix with the rows of all experts into one matrix for each expert.
Result<TensorSource> divided(const Checkpoint& checkpoint, const StoredTensor& stored, TensorSource matrix,
                             uint32_t experts) {
  const uint32_t rows = matrix.shape.rows / experts;
  for (WeightPart& part : matrix.parts) {
    if (part.grid) {
      part.grid->expert_rows = rows;
      continue;
    }
    if (part.block_rows >= matrix.shape.rows) continue;  // all experts share one row of scales
    if (rows % part.block_rows != 0)
      return error(ErrorKind::unsupported, checkpoint.files()[stored.file], ": ", printable(stored.name),
                   " has scales of ", part.block_rows, " rows: want a divisor of the ", rows, " rows of a head");
    part.expert_stride = rows / part.block_rows * part.row_stride;
  }
  matrix.shape.experts = experts;
  matrix.shape.rows = rows;
  matrix.expert_stride = matrix.grid ? 0 : rows * matrix.row_stride;
  if (matrix.grid) matrix.grid->expert_rows = rows;
  return matrix;
}

float transformed(Transform transform, float x) {
  switch (transform) {
    case Transform::plus_one: return 1.0f + x;
    case Transform::minus_exp: return static_cast<float>(-std::exp(static_cast<double>(x)));
    case Transform::minus: return -x;
    case Transform::softplus: {
      const auto wide = static_cast<double>(x);
      return static_cast<float>(std::max(wide, 0.0) + std::log1p(std::exp(-std::abs(wide))));
    }
    case Transform::none: break;
  }
  return x;
}

// An f32 tensor that owns its values.
TensorSource made_tensor(const WeightShape& shape, std::vector<float> values) {
  CHECK(shape.experts == 1 && values.size() == uint64_t{shape.rows} * shape.columns);
  const auto owned = std::make_shared<const std::vector<float>>(std::move(values));
  TensorSource tensor;
  tensor.shape = shape;
  tensor.format = Format::f32;
  tensor.bytes = reinterpret_cast<const std::byte*>(owned->data());
  tensor.row_stride = row_bytes(Format::f32, shape.columns);
  tensor.expert_stride = tensor.row_stride * shape.rows;
  tensor.owner = owned;
  return tensor;
}

TensorSource transformed(const TensorSource& stored, Transform transform) {
  CHECK(stored.shape.experts == 1 && stored.shape.rows == 1);
  std::vector<float> values(stored.shape.columns);
  decode_weight_row(stored, 0, 0, values.data());
  for (float& value : values) value = transformed(transform, value);
  return made_tensor(stored.shape, std::move(values));
}

// Whether the table ignores the tensor, or ignores the weight whose scale it is.
bool is_ignored(const WeightTable& table, Dialect dialect, const std::string& name) {
  if (table.ignores(dialect, name)) return true;
  if (dialect == Dialect::gguf) return false;
  const bool of_cache =
      std::ranges::any_of(kCacheScales, [&](std::string_view scale) { return ends_with(name, scale); });
  return of_cache || table.ignores(dialect, cat(name.substr(0, name.rfind('.')), kWeightSuffix));
}

Error missing_tensors(const Checkpoint& checkpoint, const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kNamesInASentence); ++i) list += cat(i == 0 ? "" : ", ", names[i]);
  if (names.size() > kNamesInASentence) list += cat(" and ", names.size() - kNamesInASentence, " more");
  return error(ErrorKind::not_found, checkpoint.path(), ": ",
               names.size() == 1 ? std::string("a tensor is missing: ") : cat(names.size(), " tensors are missing: "),
               list);
}

// Finds the weights of a table among the tensors of a checkpoint, one table row after another. It collects the names of
// missing tensors and remembers which tensors were used.
class WeightFinder {
 public:
  static Result<WeightFinder> open(const WeightTable& table, const Checkpoint& checkpoint, const SourceNames& names) {
    TRY(WeightPartFinder parts, WeightPartFinder::open(checkpoint, names, names_of(table, checkpoint.dialect())));
    return WeightFinder(checkpoint, names, std::move(parts), table.is_beside_text() ? "" : names.prefix());
  }

  // None if the checkpoint lacks the weight. Unless the weight is optional, its name is then among missing().
  Result<std::optional<BoundWeight>> find(const WeightRow& row) {
    const SourceName* source = present_source(row);
    if (source == nullptr) return std::optional<BoundWeight>();
    TRY(Stored stored, find_stored(row, *source));
    if (stored.tensors.size() < tensors_of(row, *source)) return std::optional<BoundWeight>();
    TensorSource whole = stored.sources[0];
    if (stored.sources.size() > 1) TRY_ASSIGN(whole, stacked(checkpoint_, stored.tensors, stored.sources));
    if (source->one_matrix)
      TRY_ASSIGN(whole, divided(checkpoint_, *stored.tensors[0], std::move(whole), row.shape.experts));
    TensorSource tensor = rows_of(whole, source->first_row, row.shape.rows);
    if (source->transform != Transform::none) whole = tensor = transformed(tensor, source->transform);
    return std::optional(BoundWeight{row, *source, stored.tensors[0], std::move(whole), std::move(tensor)});
  }

  const std::vector<std::string>& missing() const { return missing_; }
  bool has_used(const StoredTensor* stored) const { return used_.contains(stored); }

 private:
  WeightFinder(const Checkpoint& checkpoint, const SourceNames& names, WeightPartFinder parts, std::string prefix)
      : checkpoint_(checkpoint), names_(names), parts_(std::move(parts)), prefix_(std::move(prefix)) {}

  // The tensor that contains a weight, or one tensor for each of its experts.
  struct Stored {
    std::vector<const StoredTensor*> tensors;
    std::vector<TensorSource> sources;
  };

  static uint32_t tensors_of(const WeightRow& row, const SourceName& source) {
    return is_of_each_expert(source.name) ? row.shape.experts : 1;
  }

  // The first of the row's names that the checkpoint has; null if it has none.
  const SourceName* present_source(const WeightRow& row) {
    const std::vector<SourceName>& sources = row.sources(checkpoint_.dialect());
    for (const SourceName& source : sources)
      if (!source.transposed && names_.find(name_of_expert(source.name, 0)) != nullptr) return &source;
    if (!row.optional) miss(name_of_expert(sources.front().name, 0));
    return nullptr;
  }

  Result<Stored> find_stored(const WeightRow& row, const SourceName& source) {
    const WeightShape shape = shape_of_stored(row.shape, source);
    Stored stored;
    for (uint32_t i = 0; i < tensors_of(row, source); ++i) {
      const std::string name = name_of_expert(source.name, i);
      const StoredTensor* one = names_.find(name);
      if (one == nullptr) {
        miss(name);
        continue;
      }
      TRY(const ElementView view, parts_.view(name, *one, shape));
      TRY_STATUS(check_shape(checkpoint_, *one, view, stored_shape(row.shape, source)));
      TRY(FoundWeightParts beside, parts_.find(name, *one, shape));
      used_.insert(one);
      used_.insert(beside.tensors.begin(), beside.tensors.end());
      TRY(TensorSource elements, whole_tensor(checkpoint_, *one, shape, view.format, std::move(beside)));
      stored.tensors.push_back(one);
      stored.sources.push_back(std::move(elements));
    }
    return stored;
  }

  void miss(const std::string& name) {
    if (missed_.insert(name).second) missing_.push_back(prefix_ + name);
  }

  const Checkpoint& checkpoint_;
  const SourceNames& names_;
  WeightPartFinder parts_;
  const std::string prefix_;                // begins each name in missing_
  std::vector<std::string> missing_;        // in the table's order
  std::unordered_set<std::string> missed_;  // the same names without the prefix
  std::unordered_set<const StoredTensor*> used_;
};

}  // namespace

class MadeWeight {
 public:
  MadeWeight(const WeightShape& shape, std::function<std::vector<float>()> make)
      : shape_(shape), make_(std::move(make)) {}

  const WeightShape& shape() const { return shape_; }
  const TensorSource& tensor() {
    const MutexLock lock(mutex_);
    if (!tensor_) tensor_ = made_tensor(shape_, make_());
    return *tensor_;
  }

 private:
  const WeightShape shape_;
  const std::function<std::vector<float>()> make_;
  Mutex mutex_;
  std::optional<TensorSource> tensor_;
};

std::vector<int64_t> stored_shape(const WeightShape& shape, const SourceName& source) {
  if (!source.shape.empty()) return source.shape;
  if (source.transposed) return stored_shape({shape.experts, shape.columns, shape.rows}, {});
  const int64_t rows = source.total_rows != 0 ? source.total_rows : shape.rows;
  if (source.one_matrix) return {shape.experts * rows, shape.columns};
  if (shape.experts != 1 && !is_of_each_expert(source.name)) return {shape.experts, rows, shape.columns};
  if (rows != 1) return {rows, shape.columns};
  return {shape.columns};
}

void WeightTable::section(std::string canonical, std::string hugging_face, std::string gguf) {
  canonical_ = std::move(canonical);
  hugging_face_ = std::move(hugging_face);
  gguf_ = std::move(gguf);
}

void WeightTable::add(const char* name, WeightShape shape, const char* hugging_face, const char* gguf) {
  add(name, shape, std::vector<SourceName>{{hugging_face}}, {{gguf}});
}

void WeightTable::add(const char* name, WeightShape shape, std::vector<SourceName> hugging_face,
                      std::vector<SourceName> gguf) {
  for (SourceName& source : hugging_face) source.name.insert(0, hugging_face_);
  for (SourceName& source : gguf) source.name.insert(0, gguf_);
  rows_.push_back({canonical_ + name, shape, std::move(hugging_face), std::move(gguf)});
}

void WeightTable::add_optional(const char* name, WeightShape shape, std::vector<SourceName> hugging_face,
                               std::vector<SourceName> gguf) {
  add(name, shape, std::move(hugging_face), std::move(gguf));
  rows_.back().optional = true;
}

void WeightTable::ignore(const char* hugging_face, const char* gguf) {
  if (hugging_face != nullptr) ignored_[static_cast<int>(Dialect::hugging_face)].insert(hugging_face_ + hugging_face);
  if (gguf != nullptr) ignored_[static_cast<int>(Dialect::gguf)].insert(gguf_ + gguf);
}

void WeightTable::towers(Dialect dialect, std::vector<std::string> prefixes) {
  towers_[static_cast<int>(dialect)] = std::move(prefixes);
}

bool WeightTable::ignores(Dialect dialect, const std::string& source_name) const {
  return ignored_[static_cast<int>(dialect)].contains(source_name);
}

bool WeightTable::in_tower(Dialect dialect, const std::string& source_name) const {
  const std::vector<std::string>& prefixes = towers_[static_cast<int>(dialect)];
  return std::ranges::any_of(prefixes, [&](const auto& prefix) { return starts_with(source_name, prefix); });
}

Result<SourceNames> SourceNames::read(const Checkpoint& checkpoint, const std::vector<std::string>& prefixes) {
  SourceNames names;
  names.prefixes_ = prefixes;
  size_t best = prefixes.size();
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    std::string_view name = tensor.name;
    size_t prefix = 0;
    while (prefix < prefixes.size() && !starts_with(name, prefixes[prefix])) ++prefix;
    if (prefix < prefixes.size()) name.remove_prefix(prefixes[prefix].size());
    best = std::min(best, prefix);
    std::string used(name);
    if (ends_with(name, kPackedSuffix)) used.resize(used.size() - kPackedSuffix.size());
    if (ends_with(name, kWordsSuffix))
      used.replace(used.size() - kWordsSuffix.size(), kWordsSuffix.size(), kWeightSuffix);
    const auto [at, added] = names.index_.emplace(used, &tensor);
    if (!added)
      return error(ErrorKind::corrupt, checkpoint.path(), ": ", printable(at->second->name), " and ",
                   printable(tensor.name), " are the same weight: want one of them");
    names.all_.emplace_back(std::move(used), &tensor);
  }
  if (best < prefixes.size()) names.prefix_ = prefixes[best];
  return names;
}

const StoredTensor* SourceNames::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

Result<TensorSource> BoundWeights::find(const std::string& name) const {
  if (const BoundWeight* weight = bound(name)) return weight->tensor;
  const auto made = made_.find(name);
  if (made == made_.end()) return error(ErrorKind::not_found, "the model has no weight ", printable(name));
  return made->second->tensor();
}

const WeightShape* BoundWeights::shape_of(const std::string& canonical) const {
  if (const BoundWeight* weight = bound(canonical)) return &weight->row.shape;
  const auto made = made_.find(canonical);
  return made == made_.end() ? nullptr : &made->second->shape();
}

void BoundWeights::add_made(const std::string& canonical, WeightShape shape, std::function<std::vector<float>()> make) {
  made_.emplace(canonical, std::make_shared<MadeWeight>(shape, std::move(make)));
}

const BoundWeight* BoundWeights::bound(const std::string& canonical) const {
  const auto found = index_.find(canonical);
  return found == index_.end() ? nullptr : &all_[found->second];
}

Result<BoundWeights> bind_weights(const WeightTable& table, const Checkpoint& checkpoint, const SourceNames& names) {
  BoundWeights weights;
  TRY(WeightFinder finder, WeightFinder::open(table, checkpoint, names));
  for (const WeightRow& row : table.rows()) {
    TRY(std::optional<BoundWeight> weight, finder.find(row));
    if (!weight) continue;
    weights.index_.emplace(row.name, weights.all_.size());
    weights.all_.push_back(*std::move(weight));
  }
  if (!finder.missing().empty()) return missing_tensors(checkpoint, finder.missing());
  for (const auto& [name, stored] : names.all()) {
    if (finder.has_used(stored) || is_ignored(table, checkpoint.dialect(), name)) continue;
    weights.unread_.push_back(stored->name);
    if (!table.in_tower(checkpoint.dialect(), name)) weights.unknown_.push_back(stored->name);
  }
  return weights;
}

Weight WeightScope::operator[](const char* name) const {
  const WeightShape* shape = weights_->shape_of(prefix_ + name);
  CHECK(shape != nullptr);
  return recorder_->weight(prefix_ + name, *shape);
}

}  // namespace sluice

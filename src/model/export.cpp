#include "model/export.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "checkpoint/file_type.h"
#include "checkpoint/split_gguf.h"
#include "model/adapters/adapter_targets.h"
#include "model/expert_names.h"
#include "model/facts.h"
#include "model/family.h"

namespace sluice {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kQuantizationVersion = 2;

// The changes of a tensor's rows, with their factors in memory.
class RowChanges {
 public:
  explicit RowChanges(const ExportTensor& tensor) : first_expert_(tensor.first_expert) {
    for (const ExportChange& change : tensor.changes) {
      const AdaptedWeight& weight = change.use.adapter->weights()[change.weight];
      changes_.push_back({.weight = &weight,
                          .factors = change.use.adapter->factors(change.weight),
                          .scale = double{change.use.scale} * double{weight.scale},
                          .first_row = change.first_row});
    }
  }

  // W + scale B A of a row of `columns` numbers, each summed in f64 and rounded once for each adapter.
  void add_to(uint32_t expert, uint32_t row, std::span<float> numbers) const {
    for (const Change& change : changes_) add(change, first_expert_ + expert, row, numbers);
  }

 private:
  struct Change {
    const AdaptedWeight* weight = nullptr;
    AdapterFactors factors;
    double scale = 0;
    uint32_t first_row = 0;
  };

  static void add(const Change& change, uint32_t expert, uint32_t row, std::span<float> numbers) {
    const WeightShape& shape = change.weight->shape;
    if (row < change.first_row || row - change.first_row >= shape.rows) return;
    const size_t rank = change.weight->rank, columns = numbers.size();
    // Of an embedding the row is a token's, which A has, and B leads to the columns.
    const bool is_embedding = change.weight->is_embedding;
    const size_t line = (size_t{expert} * shape.rows + row - change.first_row) * rank;
    const float* const left = (is_embedding ? change.factors.a : change.factors.b).data() + line;
    const float* const right =
        is_embedding ? change.factors.b.data() : change.factors.a.data() + expert * rank * columns;
    const size_t column_step = is_embedding ? rank : 1, rank_step = is_embedding ? 1 : columns;
    for (size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (size_t k = 0; k < rank; ++k) sum += double{left[k]} * double{right[column * column_step + k * rank_step]};
      numbers[column] = static_cast<float>(double{numbers[column]} + change.scale * sum);
    }
  }

  uint32_t first_expert_;
  std::vector<Change> changes_;
};

// Each expert's matrix transposed, in f32. Only small matrices are stored that way, so the copy is cheap.
ExportTensor transposed_copy(const ExportTensor& tensor) {
  const RowChanges changes(tensor);
  const WeightShape& from = tensor.source.shape;
  const uint64_t elements = uint64_t{from.rows} * from.columns;
  const auto values = std::make_shared<std::vector<float>>(from.experts * elements);
  std::vector<float> row(from.columns);
  for (uint32_t expert = 0; expert < from.experts; ++expert)
    for (uint32_t r = 0; r < from.rows; ++r) {
      decode_weight_row(tensor.source, expert, r, row.data());
      changes.add_to(expert, r, row);
      for (uint32_t c = 0; c < from.columns; ++c)
        (*values)[static_cast<size_t>(expert * elements + uint64_t{c} * from.rows + r)] = row[c];
    }
  ExportTensor copy = tensor;
  copy.transposed = false;
  copy.changes.clear();
  copy.source = {.shape = {.experts = from.experts, .rows = from.columns, .columns = from.rows},
                 .format = Format::f32,
                 .bytes = reinterpret_cast<const std::byte*>(values->data()),
                 .expert_stride = elements * sizeof(float),
                 .row_stride = from.rows * sizeof(float),
                 .owner = values};
  return copy;
}

// The name under which a weight is written with one tensor for each expert; null: the weight has no experts.
const SourceName* name_of_each_expert(const WeightRow& row) {
  const auto name = std::ranges::find_if(row.gguf, is_of_each_expert, &SourceName::name);
  return name == row.gguf.end() ? nullptr : &*name;
}

constexpr const char* kHeadTensor = "output.weight";

// The changes of adapters by the weight that has them.
class ChangesOfWeights {
 public:
  static Result<ChangesOfWeights> find(const Model& model, const AdapterSum& adapters) {
    ChangesOfWeights all;
    all.shares_table_ = model.weights().bound(kHeadWeight) == nullptr;
    for (const AdapterUse& use : adapters) {
      if (use.scale == 0) continue;
      const std::vector<AdaptedWeight>& weights = use.adapter->weights();
      for (size_t i = 0; i < weights.size(); ++i) {
        const bool is_head = weights[i].weight == kTableWeight && !weights[i].is_embedding;
        all.changes_[is_head ? kHeadWeight : weights[i].weight].push_back({.use = use, .weight = i});
      }
    }
    return all;
  }

  // Of a weight whose rows begin at `first_row` of the tensor that is written.
  void take(const std::string& weight, uint32_t first_row, std::vector<ExportChange>& to) {
    const auto found = changes_.find(weight);
    if (found == changes_.end()) return;
    for (ExportChange& change : found->second) {
      change.first_row = first_row;
      to.push_back(change);
    }
    changes_.erase(found);
  }
  // Whether head and embedding, which share a table, must be written apart.
  bool parts_head() const {
    return shares_table_ && (changes_.contains(kHeadWeight) || changes_.contains(kTableWeight));
  }

  Status check_all_are_written() const {
    if (changes_.empty()) return {};
    const auto& [weight, changes] = *changes_.begin();
    return error(ErrorKind::unsupported, changes.front().use.adapter->path(), ": changes ", weight,
                 ", which is not written: want an adapter of other weights");
  }

 private:
  std::map<std::string, std::vector<ExportChange>> changes_;
  bool shares_table_ = false;
};

// All tensors to write. choose_formats sets their formats later.
std::vector<ExportTensor> export_tensors(const Model& model, ExpertLayout layout, ChangesOfWeights& changes) {
  std::vector<ExportTensor> tensors;
  for (const MadeTensor& made : model.family_model().gguf_made_tensors) {
    const auto values = std::make_shared<const std::vector<float>>(made.values);
    const auto columns = static_cast<uint32_t>(values->size());
    const uint64_t bytes = row_bytes(Format::f32, columns);
    tensors.push_back({made.name,
                       {columns},
                       Format::f32,
                       {.shape = {.columns = columns},
                        .format = Format::f32,
                        .bytes = reinterpret_cast<const std::byte*>(values->data()),
                        .expert_stride = bytes,
                        .row_stride = bytes,
                        .owner = values},
                       {}});
  }
  std::unordered_map<std::string, size_t> written;  // index into `tensors`
  const bool from_gguf = model.checkpoint().dialect() == Dialect::gguf;
  const bool parts_head = changes.parts_head();
  for (const ProgramKind program : model.programs()) {
    if (is_tower(program)) continue;
    for (const BoundWeight& weight : model.own_weights(program).all()) {
      const SourceName* const each = layout == ExpertLayout::packed ? name_of_each_expert(weight.row) : nullptr;
      if (each != nullptr) {
        tensors.push_back({each->name, stored_shape(weight.row.shape, *each), Format::f32, weight.tensor, {}});
        changes.take(weight.row.name, 0, tensors.back().changes);
        continue;
      }
      const SourceName& name = gguf_name(weight.row, weight.source, from_gguf);
      // Another part of a fused tensor brings its changes alone.
      const auto [place, is_new] = written.emplace(name.name, tensors.size());
      if (is_new) {
        tensors.push_back({name.name, stored_shape(weight.row.shape, name), Format::f32,
                           name.is_whole() ? weight.tensor : weight.whole, weight.row.order_to_gguf(),
                           name.transposed});
      }
      if (weight.row.name == kTableWeight && parts_head) {
        ExportTensor head = tensors.back();
        head.name = kHeadTensor;
        changes.take(kHeadWeight, 0, head.changes);
        tensors.push_back(std::move(head));
      }
      changes.take(weight.row.name, name.is_whole() ? 0 : weight.source.first_row, tensors[place->second].changes);
    }
  }
  return tensors;
}

// The value of a key of the family: a number, or the first of a list with one number a layer; 0 if there is no key.
uint32_t family_number(const std::vector<GgufMetadata::Entry>& keys, const std::string& name) {
  const auto key = std::ranges::find(keys, name, &GgufMetadata::Entry::name);
  if (key == keys.end() || element_count(key->value) == 0) return 0;
  return std::visit(
      []<class T>(const T& held) -> uint32_t {
        if constexpr (std::is_integral_v<T>)
          return static_cast<uint32_t>(held);
        else if constexpr (std::is_same_v<T, GgufArray<uint32_t>> || std::is_same_v<T, GgufArray<int32_t>>)
          return static_cast<uint32_t>(held[0]);
        else
          return 0;
      },
      key->value);
}

MixFacts mix_facts(const Family& family, const std::vector<GgufMetadata::Entry>& keys) {
  const auto number = [&](const char* key) { return family_number(keys, cat(family.name, '.', key)); };
  return {.layers = number("block_count"),
          .experts = number("expert_count"),
          .heads = number("attention.head_count"),
          .kv_heads = number("attention.head_count_kv")};
}

constexpr std::string_view kEachExpert = ".*.";

// The name that mixes and rules use: that of the tensor with all experts.
std::string stacked_name(const std::string& name) {
  const size_t at = name.find(kEachExpert);
  return at == std::string::npos ? name : cat(name.substr(0, at), "_exps.", name.substr(at + kEachExpert.size()));
}
std::vector<int64_t> stacked_shape(const ExportTensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  if (is_of_each_expert(tensor.name)) shape.insert(shape.begin(), tensor.source.shape.experts);
  return shape;
}

TensorSource source_of_expert(const TensorSource& all, uint32_t expert) {
  TensorSource one = all;
  one.shape.experts = 1;
  one.bytes = all.row(expert, 0);
  one.experts.clear();
  const auto of_expert = [&](std::optional<NumberGrid>& grid) {
    if (grid) grid->first_row += expert * grid->expert_rows;
  };
  of_expert(one.grid);
  for (WeightPart& part : one.parts) {
    part.bytes = part.row(expert, 0);
    part.experts.clear();
    of_expert(part.grid);
    if (part.groups.size() > 1) part.groups = {part.groups[expert]};
  }
  return one;
}

ExportTensor tensor_of_expert(const ExportTensor& all, uint32_t expert) {
  ExportTensor one = all;
  one.name = name_of_expert(all.name, expert);
  one.source = source_of_expert(all.source, expert);
  one.first_expert = expert;
  return one;
}

// Reorders tensors for the packed layout: those of experts go behind all others, grouped by layer and expert. In
// `tensors`, those of one layer's experts must be neighbours.
std::vector<ExportTensor> packed(std::vector<ExportTensor> tensors) {
  std::vector<ExportTensor> all, experts;
  for (ExportTensor& tensor : tensors) (is_of_each_expert(tensor.name) ? experts : all).push_back(std::move(tensor));
  const auto layer_of = [](const ExportTensor& tensor) { return tensor.name.substr(0, tensor.name.rfind(".ffn")); };
  for (auto begin = experts.begin(); begin != experts.end();) {
    const auto end = std::find_if(begin, experts.end(), [layer = layer_of(*begin), &layer_of](const auto& one) {
      return layer_of(one) != layer;
    });
    for (uint32_t expert = 0; expert < begin->source.shape.experts; ++expert)
      for (auto tensor = begin; tensor != end; ++tensor) all.push_back(tensor_of_expert(*tensor, expert));
    begin = end;
  }
  return all;
}

Status choose_formats(const Mix& mix, const std::vector<FormatRule>& rules, const MixFacts& facts,
                      std::vector<ExportTensor>& tensors) {
  std::vector<MixTensor> described;
  described.reserve(tensors.size());
  for (const ExportTensor& tensor : tensors) {
    const Format stored = tensor.source.parts.empty() ? tensor.source.format : Format::bf16;
    described.push_back({stacked_name(tensor.name), stacked_shape(tensor), stored});
  }
  std::vector<Format> formats = mix_formats(mix, described, facts);
  TRY_STATUS(apply_rules(rules, described, formats));
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].format = formats[i];
  return {};
}

std::vector<GgufMetadata::Entry> keys_of_hugging_face(const Family& family, const FamilyModel& model,
                                                      const ModelFacts& facts) {
  std::vector<GgufMetadata::Entry> keys = {{"general.architecture", std::string(family.name)},
                                           {"general.type", std::string("model")}};
  const auto append = [&](std::vector<GgufMetadata::Entry> more) { std::ranges::move(more, std::back_inserter(keys)); };
  append(gguf_sampling(facts.sampling));
  append({{"general.name", facts.name}});
  if (!facts.size_label.empty()) append({{"general.size_label", facts.size_label}});
  append(model.gguf_config);
  if (!facts.suppress_tokens.empty()) append({{"tokenizer.ggml.suppress_tokens", facts.suppress_tokens}});
  return keys;
}

std::vector<GgufMetadata::Entry> keys_of_gguf(const GgufMetadata& metadata) {
  std::vector<GgufMetadata::Entry> keys;
  std::ranges::copy_if(metadata.entries(), std::back_inserter(keys), [](const auto& entry) {
    return !starts_with(entry.name, "split.") && entry.name != kSplitIdKey;
  });
  return keys;
}

void set_key(std::vector<GgufMetadata::Entry>& keys, std::string_view name, uint32_t value) {
  const auto known = std::ranges::find_if(keys, [&](const auto& entry) { return entry.name == name; });
  if (known != keys.end())
    known->value = value;
  else
    keys.push_back({std::string(name), value});
}

// The file that is written counts the draft head as one of its blocks, even if the file that was read does not.
void count_draft_head(const Family& family, const FamilyModel& model, std::vector<GgufMetadata::Entry>& keys) {
  const std::string blocks = cat(family.name, ".block_count"), heads = cat(family.name, ".nextn_predict_layers");
  if (std::ranges::find(keys, heads, &GgufMetadata::Entry::name) != keys.end()) return;
  const uint32_t before = family_number(keys, blocks);
  for (const GgufMetadata::Entry& own : model.gguf_config) {
    const auto known = std::ranges::find(keys, own.name, &GgufMetadata::Entry::name);
    const bool counts = own.name == blocks || own.name == heads;
    if (known == keys.end()) {
      if (counts) keys.push_back(own);
      continue;
    }
    const bool of_layers = is_array(known->value) && element_count(known->value) == before &&
                           (!is_array(own.value) || element_count(own.value) == before + 1);
    if (counts || of_layers) known->value = own.value;
  }
}

void set_file_type(std::vector<GgufMetadata::Entry>& keys, const Mix& mix) {
  set_key(keys, "general.file_type", *file_type_by_name(mix.name));
  set_key(keys, "general.quantization_version", kQuantizationVersion);
}

Status check_range(const ExportTensor& tensor, std::span<const float> row) {
  const float largest = format_info(tensor.format).largest;
  const auto beyond = std::ranges::find_if(row, [&](float x) { return !(std::abs(x) <= largest); });
  if (beyond == row.end()) return {};
  return error(ErrorKind::invalid, printable(tensor.name), " holds ", *beyond, ": want magnitudes up to ", largest,
               " for ", format_name(tensor.format));
}

bool is_copied(const ExportTensor& tensor) {
  return tensor.source.format == tensor.format && tensor.source.parts.empty() && !tensor.heads.columns &&
         tensor.changes.empty();
}

// Decodes and encodes rows. A row's number counts through all experts. Each thread has a converter of its own.
class RowConverter {
 public:
  RowConverter(const ExportTensor& tensor, const RowChanges& changes)
      : tensor_(tensor),
        changes_(changes),
        values_(is_copied(tensor) ? 0 : tensor.source.shape.columns),
        ordered_(tensor.heads.columns ? values_.size() : 0) {}

  Status convert(uint64_t row, std::byte* to) {
    const TensorSource& source = tensor_.source;
    const HeadOrder& heads = tensor_.heads;
    const auto expert = static_cast<uint32_t>(row / source.shape.rows);
    const auto in_expert = static_cast<uint32_t>(row % source.shape.rows);
    const uint32_t of_expert = heads.columns ? in_expert : heads.source(in_expert);
    if (values_.empty()) {
      const std::byte* const stored = source.row(expert, of_expert);
      std::copy_n(stored, row_bytes(tensor_.format, source.shape.columns), to);
      return {};
    }
    decode_weight_row(source, expert, of_expert, values_.data());
    changes_.add_to(expert, of_expert, values_);
    for (uint32_t i = 0; i < ordered_.size(); ++i) ordered_[i] = values_[heads.source(i)];
    if (heads.columns) values_ = ordered_;
    TRY_STATUS(check_range(tensor_, values_));
    encode_row(tensor_.format, values_.data(), to, values_.size());
    return {};
  }

 private:
  const ExportTensor& tensor_;
  const RowChanges& changes_;
  std::vector<float> values_;
  std::vector<float> ordered_;  // a row with its columns reordered; empty if the order stays
};

// The first row that a thread could not convert.
struct WrongRow {
  size_t row = SIZE_MAX;  // SIZE_MAX: none
  Status why;
};

}  // namespace

const SourceName& gguf_name(const WeightRow& row, const SourceName& source, bool from_gguf) {
  const auto& names = row.gguf;
  const auto name = std::ranges::find_if(
      names, [&](const SourceName& n) { return n.same_part(source) || (!from_gguf && n.is_whole()); });
  CHECK(name != names.end());
  return *name;
}

Result<GgufExport> export_gguf(const Model& model, const Mix& mix, const std::vector<FormatRule>& rules,
                               ExpertLayout layout, const AdapterSum& adapters) {
  const bool from_gguf = model.checkpoint().dialect() == Dialect::gguf;
  for (const FamilyProgram& program : model.family_model().programs)
    if (!from_gguf && !model.has(program.kind)) return model.record(program.kind).error();
  GgufExport out;
  out.keys = from_gguf ? keys_of_gguf(model.checkpoint().metadata())
                       : keys_of_hugging_face(model.family(), model.family_model(), model.facts());
  if (from_gguf && model.has(ProgramKind::draft_head)) count_draft_head(model.family(), model.family_model(), out.keys);
  set_file_type(out.keys, mix);
  TRY(ChangesOfWeights changes, ChangesOfWeights::find(model, adapters));
  out.tensors = export_tensors(model, layout, changes);
  TRY_STATUS(changes.check_all_are_written());
  TRY_STATUS(choose_formats(mix, rules, mix_facts(model.family(), out.keys), out.tensors));
  if (layout == ExpertLayout::packed) {
    if (std::ranges::none_of(out.tensors, is_of_each_expert, &ExportTensor::name))
      return error(ErrorKind::invalid, model.checkpoint().path(), ": has no experts: want none packed");
    set_key(out.keys, kGgufAlignmentKey, kPackedAlignment);
    out.tensors = packed(std::move(out.tensors));
  }
  out.left_out = model.tower_tensors();
  std::ranges::copy(model.unread_tensors(), std::back_inserter(out.left_out));
  return out;
}

Result<GgufOutline> outline_gguf(const Checkpoint& config, const Mix& mix) {
  CHECK(config.dialect() == Dialect::hugging_face && config.tensors().empty());
  TRY(const Family* family, find_family(config));
  TRY(const SourceNames none, SourceNames::read(config, {}));
  TRY(FamilyModel model, family->read(config, none));
  ModelFacts facts;
  facts.name = config.path();
  GgufOutline out{.keys = keys_of_hugging_face(*family, model, facts), .tensors = {}};
  set_file_type(out.keys, mix);
  for (MadeTensor& made : model.gguf_made_tensors) {
    const auto columns = static_cast<int64_t>(made.values.size());
    out.tensors.push_back({std::move(made.name), {columns}, Format::f32, {}, std::move(made.values)});
  }
  std::unordered_set<std::string> written;
  for (const WeightRow& row : model.programs.front().weights.rows()) {
    if (row.hugging_face.empty()) continue;
    const SourceName& name = gguf_name(row, row.hugging_face.front(), /*from_gguf=*/false);
    if (written.insert(name.name).second)
      out.tensors.push_back({name.name, stored_shape(row.shape, name), Format::f32, row, {}});
  }
  std::vector<MixTensor> described;
  described.reserve(out.tensors.size());
  for (const OutlinedTensor& tensor : out.tensors) described.push_back({tensor.name, tensor.shape, Format::bf16});
  const std::vector<Format> formats = mix_formats(mix, described, mix_facts(*family, out.keys));
  for (size_t i = 0; i < formats.size(); ++i) out.tensors[i].format = formats[i];
  return out;
}

Status convert_rows(const ExportTensor& tensor, ThreadPool& pool, const WritePiece& write) {
  if (tensor.transposed) return convert_rows(transposed_copy(tensor), pool, write);
  const WeightShape& shape = tensor.source.shape;
  const auto bytes = static_cast<size_t>(row_bytes(tensor.format, shape.columns));  // kMaxColumns at most
  const uint64_t rows = uint64_t{shape.experts} * shape.rows;
  const uint64_t most = std::max<uint64_t>(1, kPieceBytes / std::max<uint64_t>(1, bytes));
  const RowChanges changes(tensor);
  std::vector<RowConverter> converters(pool.threads(), RowConverter(tensor, changes));
  std::vector<std::byte> piece;
  for (uint64_t first = 0; first < rows; first += most) {
    const auto count = static_cast<size_t>(std::min(most, rows - first));
    piece.resize(count * bytes);
    std::vector<WrongRow> wrong(pool.threads());
    pool.parallel(count, 0, [&](const Share& share) {
      WrongRow& found = wrong[share.thread];
      // A thread may come to earlier rows after a wrong one, so only what is behind that is passed over.
      for (size_t row = share.first; row < std::min(share.last, found.row); ++row)
        if (Status done = converters[share.thread].convert(first + row, piece.data() + row * bytes); !done)
          found = {row, std::move(done)};
    });
    TRY_STATUS(std::ranges::min_element(wrong, {}, &WrongRow::row)->why);
    TRY_STATUS(write(piece));
  }
  return {};
}

}  // namespace sluice

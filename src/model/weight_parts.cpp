#include "model/weight_parts.h"

#include <algorithm>

#include "base/limits.h"
#include "model/integer_layout.h"
#include "model/weight_table.h"

namespace sluice {
namespace {

struct Side {
  const char* suffix;
  PartRole role;
};
// The suffixes of tensors with scales, in the order in which the scales apply.
constexpr Side kSides[] = {{"_scale_inv", PartRole::factor},
                           {"_scale", PartRole::factor},
                           {"_scale_2", PartRole::factor},
                           {"_global_scale", PartRole::divisor}};
constexpr Side kGgufSide = {".scale", PartRole::factor};
constexpr const char* kNotUsed[] = {".input_scale",  ".input_global_scale", ".input_zero_point",
                                    ".output_scale", ".output_zero_point",  ".k_scale",
                                    ".v_scale"};
constexpr const char* kShape = "_shape";
constexpr const char* kPreScale = ".pre_quant_scale";
constexpr const char* kMlxScales = ".scales";
constexpr const char* kMlxOffsets = ".biases";

bool is_float8(Format format) { return format == Format::f8_e4m3 || format == Format::f8_e5m2; }

// The name without ".weight".
std::string stem_of(const std::string& name) {
  return ends_with(name, kWeightSuffix) ? name.substr(0, name.size() - kWeightSuffix.size()) : name;
}

uint32_t blocks(uint32_t elements, uint32_t block) { return (elements - 1) / block + 1; }

// The field of quantization_config with [rows, columns] of a block, which has one of two names; null: neither is there.
const Json* block_size_of(const Json& config) {
  const Json* quantization = config.find("quantization_config");
  if (quantization == nullptr) return nullptr;
  if (const Json* size = quantization->find("weight_block_size"); size != nullptr && !size->is_null()) return size;
  const Json* groups = quantization->find("config_groups");
  if (groups == nullptr || !groups->is_object()) return nullptr;
  for (const auto& [name, group] : groups->as_object()) {
    const Json* weights = group.find("weights");
    const Json* size = weights == nullptr ? nullptr : weights->find("block_structure");
    if (size != nullptr && !size->is_null()) return size;
  }
  return nullptr;
}

// The elements that the words of a row hold. A rest that is not a whole element does not count.
ElementView view_of_words(const StoredTensor& words, Format format, uint32_t bits) {
  ElementView view{format, words.shape};
  if (!view.shape.empty() && view.shape.back() <= INT64_MAX / kWordBits)
    view.shape.back() = view.shape.back() * kWordBits / bits;
  return view;
}

bool is_block_length(const Json& number) {
  return number.is_integer() && number.as_integer() >= 1 && number.as_integer() <= kMaxWidth;
}

}  // namespace

Result<WeightPartFinder> WeightPartFinder::open(const Checkpoint& checkpoint, const SourceNames& names,
                                                std::unordered_set<std::string> claimed) {
  WeightPartFinder finder(checkpoint, names);
  finder.claimed_ = std::move(claimed);
  const Json* config = checkpoint.document("config.json");
  if (config == nullptr) return finder;
  const std::string where = join_path(checkpoint.path(), "config.json");
  TRY(finder.mlx_, MlxQuantization::read(*config, where, names.prefixes()));
  TRY(finder.quantization_, QuantizationConfig::read(*config, where));
  const Json* size = block_size_of(*config);
  if (size == nullptr) return finder;
  if (!size->is_array() || size->as_array().size() != 2 || !std::ranges::all_of(size->as_array(), is_block_length))
    return error(ErrorKind::invalid, checkpoint.path(), ": config.json's quantization blocks are ",
                 printable(write_json(*size)), ": want two whole numbers, 1 to ", kMaxWidth);
  finder.block_rows_ = static_cast<uint32_t>(size->as_array()[0].as_integer());
  finder.block_columns_ = static_cast<uint32_t>(size->as_array()[1].as_integer());
  return finder;
}

const StoredTensor* WeightPartFinder::beside(const std::string& name) const {
  return claimed_.contains(name) ? nullptr : names_->find(name);
}

std::string WeightPartFinder::described(const StoredTensor& tensor) const {
  return cat(checkpoint_->files()[tensor.file], ": ", printable(tensor.name));
}

Result<ElementView> WeightPartFinder::view(const std::string& name, const StoredTensor& elements,
                                           const WeightShape& shape) const {
  if (lies_in_words(elements)) return words_view(elements, shape);
  ElementView view{elements.format, elements.shape};
  TRY(const MlxPacking* const mlx, mlx_packing(stem_of(name), elements));
  if (mlx != nullptr) return view_of_words(elements, mlx->elements, mlx->bits);
  if (const std::optional<uint32_t> bits = packed_bits(name, elements, shape.columns))
    return view_of_words(elements, format_of_bits(*bits), *bits);
  const bool packed = elements.format == Format::u8 && !view.shape.empty() && beside(name + "_scale") != nullptr;
  if (!packed || view.shape.back() > INT64_MAX / 2) return view;
  view.format = Format::f4;
  view.shape.back() *= 2;
  return view;
}

Result<FoundWeightParts> WeightPartFinder::find(const std::string& name, const StoredTensor& elements,
                                                const WeightShape& shape) const {
  FoundWeightParts found;
  const std::string stem = stem_of(name);
  if (lies_in_words(elements)) return find_words(stem, elements, shape);
  TRY(const MlxPacking* const mlx, mlx_packing(stem, elements));
  if (mlx != nullptr) return find_mlx(stem, elements, *mlx, shape);
  TRY(const ElementView viewed, view(name, elements, shape));
  const Format format = viewed.format;
  const bool integers = is_integers(name, elements);
  if (checkpoint_->dialect() == Dialect::gguf) {
    if (format != Format::nvfp4) return found;
    if (const StoredTensor* side = beside(stem + kGgufSide.suffix))
      TRY_STATUS(add(*side, kGgufSide.role, shape, found));
  } else if (is_float8(format) || format == Format::f4 || integers) {
    if (integers) TRY_STATUS(add_zero_point(name, elements, shape, found));
    const size_t scales = found.parts.size();
    for (const Side& kind : kSides)
      if (const StoredTensor* side = beside(name + kind.suffix)) TRY_STATUS(add(*side, kind.role, shape, found));
    if (found.parts.size() == scales)
      return error(ErrorKind::unsupported, described(elements), " is ", format_name(elements.format),
                   " without its scales: want ", printable(name), "_scale_inv or _scale beside it");
    if (const StoredTensor* side = beside(name + "_g_idx"); side != nullptr && integers)
      TRY_STATUS(add_groups(*side, shape, found));
    if (const StoredTensor* side = beside(stem + kPreScale))
      return error(ErrorKind::unsupported, described(*side), ": activations are scaled before the product: want none");
  } else {
    return found;
  }
  for (const char* suffix : kNotUsed)
    if (const StoredTensor* side = beside(stem + suffix)) found.tensors.push_back(side);
  if (const StoredTensor* side = beside(name + kShape)) found.tensors.push_back(side);
  return found;
}

// A file may store floats of 8 bits as u8. `of_bytes` is their format; none: u8 is refused.
Result<WeightPart> WeightPartFinder::part_of(const StoredTensor& side, PartRole role,
                                             std::optional<Format> of_bytes) const {
  WeightPart part;
  part.role = role;
  part.format = side.format == Format::u8 && of_bytes ? *of_bytes : side.format;
  part.bytes = side.bytes.data();
  part.owner = checkpoint_->owner(side);
  const FormatInfo& info = format_info(part.format);
  const bool is_integer = part.format == Format::u8 || part.format == Format::i8;
  if (info.decode == nullptr || info.block_elements != 1 || is_integer != (role == PartRole::minus))
    return error(ErrorKind::unsupported, described(side), " is ", format_name(side.format), ": want ",
                 role == PartRole::minus ? "i8" : "floats");
  return part;
}

Status WeightPartFinder::add(const StoredTensor& side, PartRole role, const WeightShape& shape,
                             FoundWeightParts& found) const {
  TRY(WeightPart part, part_of(side, role, Format::f8_e8m0));
  TRY_STATUS(fit(side, shape, part));
  found.parts.push_back(std::move(part));
  found.tensors.push_back(&side);
  return {};
}

// Finds the size of a scale's block from the number of scales: one for the tensor, for each row, for each group of a
// row, or for each block of rows and columns.
Status WeightPartFinder::fit(const StoredTensor& side, const WeightShape& shape, WeightPart& part) const {
  std::vector<int64_t> numbers = side.shape;
  const bool by_expert = shape.experts > 1 && !numbers.empty() && numbers.front() == shape.experts;
  if (by_expert) numbers.erase(numbers.begin());
  while (numbers.size() > 2 && numbers.front() == 1) numbers.erase(numbers.begin());
  if (numbers.size() == 1) numbers.push_back(1);
  if (numbers.empty()) numbers = {1, 1};
  const Error wrong = error(ErrorKind::invalid, described(side), " is ", format_shape(side.shape), ": want one ",
                            part.role == PartRole::minus ? "zero point" : "scale",
                            " a tensor, a row, a group of a row's elements or ", block_rows_, " x ", block_columns_,
                            " elements of [", shape.experts, ", ", shape.rows, ", ", shape.columns, "]");
  if (numbers.size() != 2 || numbers[0] < 1 || numbers[1] < 1) return wrong;
  const int64_t rows = numbers[0], columns = numbers[1];
  if (rows == 1 && columns == 1) {
    part.block_rows = shape.rows;
    part.block_columns = shape.columns;
  } else if (rows == shape.rows && shape.columns % columns == 0) {
    part.block_rows = 1;
    part.block_columns = static_cast<uint32_t>(shape.columns / columns);
  } else if (rows == blocks(shape.rows, block_rows_) && columns == blocks(shape.columns, block_columns_)) {
    part.block_rows = block_rows_;
    part.block_columns = block_columns_;
  } else {
    return wrong;
  }
  part.row_stride = row_bytes(part.format, static_cast<uint64_t>(columns));
  part.expert_stride = by_expert ? part.row_stride * static_cast<uint64_t>(rows) : 0;
  return {};
}

Result<const MlxPacking*> WeightPartFinder::mlx_packing(const std::string& stem, const StoredTensor& elements) const {
  if (checkpoint_->dialect() == Dialect::gguf || beside(stem + kMlxScales) == nullptr) return nullptr;
  const std::string tensor = cat(checkpoint_->files()[elements.file], ": ", printable(elements.name));
  if (!mlx_)
    return error(ErrorKind::unsupported, tensor, " has ", kMlxScales + 1,
                 " beside it: want config.json's quantization to say in what groups");
  TRY(const MlxPacking* const packing, mlx_->of(stem_of(elements.name)));
  if (packing != nullptr && elements.format != Format::u32)
    return error(ErrorKind::unsupported, tensor, " is ", format_name(elements.format), " with ", kMlxScales + 1,
                 " beside it: want u32");
  return packing;
}

Result<FoundWeightParts> WeightPartFinder::find_mlx(const std::string& stem, const StoredTensor& elements,
                                                    const MlxPacking& packing, const WeightShape& shape) const {
  FoundWeightParts found;
  const std::string tensor = cat(checkpoint_->files()[elements.file], ": ", printable(elements.name));
  if (shape.columns % packing.group != 0)
    return error(ErrorKind::invalid, tensor, " has rows of ", shape.columns, " elements: want whole groups of ",
                 packing.group, ", which config.json's quantization says");
  TRY_STATUS(add_mlx(*beside(stem + kMlxScales), elements, PartRole::factor, packing, shape, found));
  if (!packing.offsets) return found;
  const StoredTensor* offsets = beside(stem + kMlxOffsets);
  if (offsets == nullptr)
    return error(ErrorKind::not_found, tensor, " is quantised in mode ", packing.mode, ": want ", printable(stem),
                 kMlxOffsets, " beside it");
  TRY_STATUS(add_mlx(*offsets, elements, PartRole::offset, packing, shape, found));
  return found;
}

// Scales and offsets have the shape of the elements, with one number for each group of a row.
Status WeightPartFinder::add_mlx(const StoredTensor& side, const StoredTensor& elements, PartRole role,
                                 const MlxPacking& packing, const WeightShape& shape, FoundWeightParts& found) const {
  std::vector<int64_t> want = elements.shape;
  const uint32_t groups = shape.columns / packing.group;
  want.back() = groups;
  if (side.shape != want)
    return error(ErrorKind::invalid, checkpoint_->files()[side.file], ": ", printable(side.name), " is ",
                 format_shape(side.shape), ": want ", format_shape(want), ", of groups of ", packing.group);
  TRY(WeightPart part, part_of(side, role, packing.scales));
  part.block_columns = packing.group;
  part.row_stride = row_bytes(part.format, groups);
  part.expert_stride = part.row_stride * shape.rows;
  found.parts.push_back(std::move(part));
  found.tensors.push_back(&side);
  return {};
}

}  // namespace sluice

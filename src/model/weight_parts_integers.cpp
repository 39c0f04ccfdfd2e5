// Integers of 4 and 8 bits with scales and zero points: compressed-tensors, GPTQ, AWQ. weight_parts.h lists their
// tensors; here is the layout inside them for 4 bits. A word of 8-bit integers has four in place of eight.
//
//   x.qweight, GPTQ   i32 [columns / 8, rows]   a word has eight neighbours of a row, the first in the lowest bits
//             AWQ     i32 [columns, rows / 8]   eight neighbours of a column, in the order 0, 2, 4, 6, 1, 3, 5, 7
//   x.qzeros          i32 [groups, rows / 8]    eight neighbours of a column; AWQ in the order above, GPTQ in plain
//                                               order, and before version 2 GPTQ stores the zero point less one
//   x.scales          floats [groups, rows]
//   x.g_idx, GPTQ     i32 [columns]             a column's group; without x.g_idx, neighbours share a group
//   X_zero_point      i32 [rows / 8, groups]    the last word is padded
//
// Large tensors are not copied: a grid (graph/weights.h) says where each integer lies.
#include <algorithm>
#include <array>
#include <cstring>

#include "model/integer_layout.h"
#include "model/weight_parts.h"

namespace sluice {
namespace {

constexpr std::array<uint32_t, 2> kBits = {4, 8};
constexpr uint64_t kWordBytes = 4;

// The number of bits with which `columns` integers fill `words` words. If neither 4 nor 8 fits, 4 is returned, and the
// shape is refused later.
uint32_t bits_of(int64_t words, uint32_t columns) {
  const auto bits = std::ranges::find_if(kBits, [&](uint32_t some) {
    return words <= INT64_MAX / kWordBits && words * kWordBits == int64_t{columns} * some;
  });
  return bits == kBits.end() ? kBits[0] : *bits;
}

// The unsigned integer that stands for 0 if there is no zero point.
const float* middle_of(uint32_t bits) {
  static constexpr float k4 = 8, k8 = 128;
  return bits == 8 ? &k8 : &k4;
}

WeightPart middle(uint32_t bits, const WeightShape& shape) {
  WeightPart part;
  part.role = PartRole::minus;
  part.format = Format::f32;
  part.bytes = reinterpret_cast<const std::byte*>(middle_of(bits));
  part.block_rows = shape.rows;
  part.block_columns = shape.columns;
  return part;
}

std::vector<int32_t> integers_of(const StoredTensor& tensor) {
  std::vector<std::byte> room;
  std::vector<int32_t> values(static_cast<size_t>(tensor.bytes.size() / sizeof(int32_t)));
  std::memcpy(values.data(), tensor.bytes.data().read(tensor.bytes.size(), room), values.size() * sizeof(int32_t));
  return values;
}

uint32_t numbers_of_row(const WeightPart& part, uint32_t columns) { return (columns - 1) / part.block_columns + 1; }

}  // namespace

std::optional<uint32_t> WeightPartFinder::packed_bits(const std::string& name, const StoredTensor& elements,
                                                      uint32_t columns) const {
  const bool packed = checkpoint_->dialect() != Dialect::gguf && elements.format == Format::i32 &&
                      ends_with(elements.name, kPackedSuffix) && beside(name + "_scale") != nullptr;
  if (!packed || elements.shape.empty()) return std::nullopt;
  return bits_of(elements.shape.back(), columns);
}

bool WeightPartFinder::is_integers(const std::string& name, const StoredTensor& elements) const {
  if (checkpoint_->dialect() == Dialect::gguf) return false;
  return (elements.format == Format::i8 && beside(name + "_scale") != nullptr) ||
         packed_bits(name, elements, 0).has_value();
}

Status WeightPartFinder::check_columns(const StoredTensor& elements, const WeightShape& shape) const {
  const uint32_t whole = format_info(Format::u4).block_elements;
  if (shape.columns != 0 && shape.columns % whole == 0) return {};
  return error(ErrorKind::unsupported, described(elements), " has rows of ", shape.columns,
               " integers: want a multiple of ", whole);
}

Status WeightPartFinder::add_zero_point(const std::string& name, const StoredTensor& elements, const WeightShape& shape,
                                        FoundWeightParts& found) const {
  const StoredTensor* side = beside(name + "_zero_point");
  if (const std::optional<uint32_t> bits = packed_bits(name, elements, shape.columns)) {
    TRY_STATUS(check_columns(elements, shape));
    if (side != nullptr && side->format == Format::i32) return add_packed_zero_point(*side, *bits, shape, found);
    found.parts.push_back(middle(*bits, shape));
  }
  return side == nullptr ? Status() : add(*side, PartRole::minus, shape, found);
}

// Elements and zero points are stored with the same added constant, which their difference removes.
Status WeightPartFinder::add_packed_zero_point(const StoredTensor& side, uint32_t bits, const WeightShape& shape,
                                               FoundWeightParts& found) const {
  std::vector<int64_t> words = side.shape;
  const bool by_expert = shape.experts > 1 && words.size() == 3 && words.front() == shape.experts;
  if (by_expert) words.erase(words.begin());
  const uint32_t in_word = kWordBits / bits;
  const int64_t word_rows = (int64_t{shape.rows} + in_word - 1) / in_word;
  if (words.size() != 2 || words[0] != word_rows || words[1] < 1 || shape.columns % words[1] != 0)
    return error(ErrorKind::invalid, described(side), " is ", format_shape(side.shape), ": want zero points of ", bits,
                 " bits for groups of [", shape.experts, ", ", shape.rows, ", ", shape.columns, "]");
  const auto groups = static_cast<uint32_t>(words[1]);
  WeightPart part;
  part.role = PartRole::minus;
  part.format = format_of_bits(bits);
  part.bytes = side.bytes.data();
  part.owner = checkpoint_->owner(side);
  part.block_columns = shape.columns / groups;
  part.grid = NumberGrid{.word = NumberGrid::Word::of_rows,
                         .bits = bits,
                         .row_step = groups * kWordBytes,
                         .column_step = kWordBytes,
                         .bytes = static_cast<uint64_t>(word_rows) * groups * kWordBytes};
  part.expert_stride = by_expert ? part.grid->bytes : 0;
  found.parts.push_back(std::move(part));
  found.tensors.push_back(&side);
  return {};
}

// A list of groups is needed only when the columns of a group are not neighbours. A list with -1 was never filled in
// and is ignored.
Status WeightPartFinder::add_groups(const StoredTensor& side, const WeightShape& shape, FoundWeightParts& found) const {
  found.tensors.push_back(&side);
  if (side.format != Format::i32 || side.shape != std::vector<int64_t>{shape.columns})
    return error(ErrorKind::invalid, described(side), " is ", format_name(side.format), " ", format_shape(side.shape),
                 ": want i32 [", shape.columns, "]");
  const std::vector<int32_t> values = integers_of(side);
  if (std::ranges::count(values, -1) > 0) return {};
  const auto groups = std::make_shared<std::vector<uint32_t>>(values.begin(), values.end());
  for (WeightPart& part : found.parts) {
    const uint32_t numbers = numbers_of_row(part, shape.columns);
    if (numbers == 1) continue;
    const uint32_t last = *std::ranges::max_element(*groups);
    if (last >= numbers)
      return error(ErrorKind::invalid, described(side), " holds ", static_cast<int32_t>(last), ": want groups 0 to ",
                   numbers - 1);
    bool in_order = shape.columns % numbers == 0;
    for (uint32_t i = 0; i < shape.columns && in_order; ++i) in_order = (*groups)[i] == i / part.block_columns;
    if (!in_order) part.groups = {groups};
  }
  return {};
}

Result<ElementView> WeightPartFinder::words_view(const StoredTensor& elements, const WeightShape& shape) const {
  if (!quantization_.words)
    return error(ErrorKind::unsupported, described(elements),
                 ": config.json does not say how it is packed: want quantization_config with quant_method gptq or awq");
  if (elements.format != Format::i32 || elements.shape.size() != 2)
    return error(ErrorKind::unsupported, described(elements), " is ", format_name(elements.format), " ",
                 format_shape(elements.shape), ": want i32 in two dimensions");
  const int64_t outer = elements.shape[0], inner = elements.shape[1];
  if (outer > INT64_MAX / kWordBits || inner > INT64_MAX / kWordBits)
    return ElementView{elements.format, elements.shape};
  if (quantization_.words->kind == WordLayout::Kind::awq)
    return ElementView{format_of_bits(kBits[0]), {inner * kWordBits / kBits[0], outer}};
  const uint32_t bits = bits_of(outer, shape.columns);
  return ElementView{format_of_bits(bits), {inner, outer * kWordBits / bits}};
}

Result<FoundWeightParts> WeightPartFinder::find_words(const std::string& stem, const StoredTensor& elements,
                                                      const WeightShape& shape) const {
  const bool awq = quantization_.words->kind == WordLayout::Kind::awq;
  const uint32_t bits = awq ? kBits[0] : bits_of(elements.shape[0], shape.columns);
  TRY_STATUS(check_columns(elements, shape));
  FoundWeightParts found;
  const uint64_t in_word = kWordBits / bits;
  if (awq)
    found.grid = NumberGrid{.word = NumberGrid::Word::of_rows,
                            .interleaved = true,
                            .bits = bits,
                            .row_step = kWordBytes,
                            .column_step = shape.rows / in_word * kWordBytes,
                            .bytes = elements.bytes.size()};
  else
    found.grid = NumberGrid{.word = NumberGrid::Word::of_columns,
                            .bits = bits,
                            .row_step = kWordBytes,
                            .column_step = shape.rows * kWordBytes,
                            .bytes = elements.bytes.size()};
  const StoredTensor* const scales = beside(stem + ".scales");
  if (scales == nullptr)
    return error(ErrorKind::not_found, described(elements), " is quantised: want ", printable(stem),
                 ".scales beside it");
  TRY(WeightPart factor, part_of(*scales, PartRole::factor, std::nullopt));
  if (scales->shape.size() != 2 || scales->shape[0] < 1 || scales->shape[0] > shape.columns ||
      scales->shape[1] != shape.rows)
    return error(ErrorKind::invalid, described(*scales), " is ", format_shape(scales->shape), ": want [groups, ",
                 shape.rows, "]");
  const auto groups = static_cast<uint32_t>(scales->shape[0]);
  factor.block_columns = (shape.columns - 1) / groups + 1;
  const uint64_t bytes = row_bytes(factor.format, 1);
  factor.grid = NumberGrid{.row_step = bytes, .column_step = bytes * shape.rows, .bytes = bytes * shape.rows * groups};
  TRY_STATUS(add_word_zeros(stem, elements, bits, groups, shape, found));
  found.parts.push_back(std::move(factor));
  found.tensors.push_back(scales);
  const StoredTensor* const order = awq ? nullptr : beside(stem + ".g_idx");
  if (order != nullptr) {
    TRY_STATUS(add_groups(*order, shape, found));
  } else if (shape.columns % groups != 0) {
    return error(ErrorKind::invalid, described(*scales), " is ", format_shape(scales->shape),
                 ": want a number of groups that divides ", shape.columns);
  }
  return found;
}

// The zero points of symmetric files are not used, because their values do not depend on the file's version as they
// should: some files store the middle value, others the middle value less one.
Status WeightPartFinder::add_word_zeros(const std::string& stem, const StoredTensor& elements, uint32_t bits,
                                        int64_t groups, const WeightShape& shape, FoundWeightParts& found) const {
  const uint32_t in_word = kWordBits / bits;
  const uint32_t one_each = bits == 8 ? 0x01010101u : 0x11111111u;
  const StoredTensor* const zeros = beside(stem + ".qzeros");
  if (zeros == nullptr) {
    if (quantization_.words->symmetric) found.parts.push_back(middle(bits, shape));
    if (quantization_.words->symmetric) return {};
    return error(ErrorKind::not_found, described(elements), " is quantised: want ", printable(stem),
                 ".qzeros beside it");
  }
  found.tensors.push_back(zeros);
  const std::vector<int64_t> want{groups, shape.rows / in_word};
  if (zeros->format != Format::i32 || zeros->shape != want || shape.rows % in_word != 0)
    return error(ErrorKind::invalid, described(*zeros), " is ", format_name(zeros->format), " ",
                 format_shape(zeros->shape), ": want i32 ", format_shape(want));
  if (quantization_.words->symmetric) {
    std::vector<std::byte> room;
    uint32_t first = 0;
    std::memcpy(&first, zeros->bytes.data().read(sizeof first, room), sizeof first);
    const uint32_t middles = one_each << (bits - 1);
    if (first != middles && first != middles - one_each)
      return error(ErrorKind::invalid, described(*zeros),
                   " holds zero points that are not the middle: want config.json's sym to be false");
    found.parts.push_back(middle(bits, shape));
    return {};
  }
  const bool awq = quantization_.words->kind == WordLayout::Kind::awq;
  WeightPart part;
  part.role = PartRole::minus;
  part.format = format_of_bits(bits);
  part.bytes = zeros->bytes.data();
  part.owner = checkpoint_->owner(*zeros);
  part.block_columns = (shape.columns - 1) / static_cast<uint32_t>(groups) + 1;
  part.grid = NumberGrid{.word = NumberGrid::Word::of_rows,
                         .interleaved = awq,
                         .bits = bits,
                         .added = quantization_.words->zeros_less_one ? one_each : 0,
                         .row_step = kWordBytes,
                         .column_step = shape.rows / in_word * kWordBytes,
                         .bytes = zeros->bytes.size()};
  found.parts.push_back(std::move(part));
  return {};
}

}  // namespace sluice

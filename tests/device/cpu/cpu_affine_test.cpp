// Products with MLX's matrices, whose kernels decode rows on their own, to the bits of decode_weight_row at every
// level.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "device/cpu/memory.h"
#include "device/cpu/simd_level.h"

namespace sluice::cpu {
namespace {

using Floats = std::vector<float>;

Floats uniform(uint32_t seed, size_t count) {
  Floats numbers(count);
  for (uint32_t i = 0; i < count; ++i) numbers[i] = philox4x32({i, 0, 0, 0}, {seed, 0})[0] * 0x1p-31f - 1;
  return numbers;
}

// Integers of few bits, each group of a row under a factor of either sign and an offset, at odd addresses.
struct Matrix {
  Matrix(Format format, Format numbers, uint32_t group, uint32_t rows, uint32_t columns)
      : elements(row_bytes(format, columns) * rows + 1) {
    for (uint32_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<std::byte>(philox4x32({i, 1, 0, 0}, {7, 0})[0]);
    source.shape = {.rows = rows, .columns = columns};
    source.format = format;
    source.bytes = elements.data() + 1;
    source.row_stride = row_bytes(format, columns);
    add(PartRole::factor, numbers, group, factors);
    add(PartRole::offset, numbers, group, offsets);
  }
  void add(PartRole role, Format format, uint32_t group, std::vector<std::byte>& stored) {
    const uint32_t groups = source.shape.columns / group;
    const Floats values = uniform(static_cast<uint32_t>(role), size_t{source.shape.rows} * groups);
    stored.resize(row_bytes(format, values.size()) + 1);
    encode_row(format, values.data(), stored.data() + 1, values.size());
    source.parts.push_back({.role = role,
                            .format = format,
                            .bytes = stored.data() + 1,
                            .block_columns = group,
                            .row_stride = row_bytes(format, groups),
                            .owner = {}});
  }
  std::vector<std::byte> elements, factors, offsets;
  TensorSource source;
};

struct Case {
  uint32_t rows, columns, x_rows;
};
constexpr Case kCases[] = {{7, 128, 1}, {17, 8448, 2}, {33, 256, 9}};  // more groups than are decoded at once
constexpr std::pair<Format, uint32_t> kNumbers[] = {{Format::bf16, 64}, {Format::f16, 32}, {Format::f32, 128}};
constexpr Format kFormats[] = {Format::u2, Format::u3, Format::u4, Format::u5, Format::u6, Format::u8};

class Affine : public testing::TestWithParam<SimdLevel> {
 protected:
  Floats product(ProductKernel kernel, const Case& one, const Floats& x, ProductArgs args) const {
    Floats out(size_t{one.rows} * one.x_rows), scratch(product_scratch(one.columns));
    args.x = reinterpret_cast<const std::byte*>(x.data());
    args.x_stride = uint64_t{one.columns} * sizeof(float);
    args.out = out.data();
    args.out_stride = one.rows;
    args.columns = one.columns;
    args.rows = one.x_rows;
    kernel(args, 0, one.rows, scratch.data());
    return out;
  }
  const Kernels& kernels_ = *simd_info(GetParam()).kernels;
};

TEST_P(Affine, ProductsAreThoseOfTheDecodedRows) {
  for (const Format format : kFormats)
    for (const Case& one : kCases)
      for (const auto& [numbers, group] : kNumbers) {
        SCOPED_TRACE(cat(format_name(format), " in groups of ", group, ", ", one.columns, " columns"));
        const Matrix matrix(format, numbers, group, one.rows, one.columns);
        Floats decoded(size_t{one.rows} * one.columns);
        for (uint32_t row = 0; row < one.rows; ++row)
          decode_weight_row(matrix.source, 0, row, &decoded[size_t{row} * one.columns]);
        const Floats x = uniform(3, size_t{one.x_rows} * one.columns);
        const Floats expected = product(kernels_.formats[static_cast<int>(Format::f32)].product, one, x,
                                        {.weight = reinterpret_cast<const std::byte*>(decoded.data()),
                                         .weight_stride = uint64_t{one.columns} * sizeof(float)});
        ProductArgs args{.weight = matrix.source.bytes,
                         .weight_stride = matrix.source.row_stride,
                         .affine = affine_rows(matrix.source, 0),
                         .source = &matrix.source};
        ASSERT_EQ(args.affine.group, group);
        EXPECT_EQ(product(kernels_.product_in_parts, one, x, args), expected);
        args.affine = {};  // row by row through decode_weight_row
        EXPECT_EQ(product(kernels_.product_in_parts, one, x, args), expected);
      }
}

TEST(AffineRows, AreIntegersUnderAFactorAndAnOffset) {
  Matrix matrix(Format::u4, Format::bf16, 64, 2, 128);
  EXPECT_EQ(affine_rows(matrix.source, 0).group, 64u);
  std::swap(matrix.source.parts[0], matrix.source.parts[1]);
  EXPECT_EQ(affine_rows(matrix.source, 0).group, 0u);
  matrix.source.parts.pop_back();
  EXPECT_EQ(affine_rows(matrix.source, 0).group, 0u);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Affine, testing::ValuesIn(simd_levels()),
                         [](const auto& one) { return std::string(simd_name(one.param)); });

}  // namespace
}  // namespace sluice::cpu

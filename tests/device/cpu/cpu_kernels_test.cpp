// The kernels by themselves: how near their functions come to the true values, that every level computes the same, and
// that neither neighbours nor places change a bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "device/cpu/kernels.h"
#include "device/cpu/packing.h"
#include "device/cpu/simd_level.h"
#include "format/q8_0.h"
#include "tests/device/stored_rows.h"

namespace sluice::cpu {
namespace {

using Floats = std::vector<float>;

Floats uniform(uint32_t seed, size_t count, float low, float high) {
  Floats numbers(count);
  for (uint32_t i = 0; i < count; ++i)
    numbers[i] = low + (high - low) * (philox4x32({i, 0, 0, 0}, {seed, 0})[0] * 0x1p-32f);
  return numbers;
}

std::vector<uint32_t> bits(const Floats& numbers) {
  std::vector<uint32_t> words(numbers.size());
  std::memcpy(words.data(), numbers.data(), numbers.size() * sizeof(float));
  return words;
}

// Distance in units of the last place of the true value; of the smallest subnormal near zero.
double ulps(float found, double truth) {
  const auto rounded = static_cast<float>(truth);
  if (std::isinf(rounded) || rounded == 0) return found == rounded ? 0 : std::fabs(found - truth) / 0x1p-149;
  const int exponent = std::max(std::ilogb(rounded), -126);
  return std::fabs(static_cast<double>(found) - truth) / std::ldexp(1.0, exponent - 23);
}

class EveryLevel : public testing::TestWithParam<SimdLevel> {
 protected:
  const Kernels& kernels_ = *simd_info(GetParam()).kernels;
};

INSTANTIATE_TEST_SUITE_P(Cpu, EveryLevel, testing::ValuesIn(simd_levels()),
                         [](const auto& one) { return std::string(simd_name(one.param)); });

// Every 997th float of both signs, and those around which something happens.
Floats floats_of_all_sizes() {
  Floats all = {0.0f, -0.0f, 88.72283f, 88.72284f, -87.33654f, -103.97207f, -103.97208f, 0.34657f, 0.34658f, -0.34658f};
  for (uint32_t word = 0; word < 0x7f800000u; word += 997)
    for (const uint32_t sign : {0u, 0x80000000u}) all.push_back(std::bit_cast<float>(word | sign));
  const Floats near = uniform(1, 200000, -110.0f, 90.0f);
  all.insert(all.end(), near.begin(), near.end());
  return all;
}

// Over all floats whose true result is at least `smallest`.
template <class Function>
double worst_ulps(void (*kernel)(const float*, float*, size_t), const Function& truth, double smallest = 0) {
  const Floats x = floats_of_all_sizes();
  Floats y(x.size());
  kernel(x.data(), y.data(), x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (const double y_i = truth(static_cast<double>(x[i])); std::fabs(y_i) >= smallest)
      worst = std::max(worst, ulps(y[i], y_i));
  return worst;
}

TEST_P(EveryLevel, ExpIsWithinTwoUlpEverywhere) {
  EXPECT_LE(worst_ulps(kernels_.exp, [](double x) { return std::exp(x); }), 2.0);
}

// expm1 rounds once more than exp, the quotient and its operands three times.
TEST_P(EveryLevel, TanhIsWithinFourUlpEverywhere) {
  EXPECT_LE(worst_ulps(kernels_.tanh, [](double x) { return std::tanh(x); }), 4.0);
}

// Subnormal results are zero: exp(-x) has overflown.
TEST_P(EveryLevel, SigmoidIsWithinFourUlpWhereItIsNormal) {
  const auto kernel = kernels_.activation[static_cast<int>(ActivationKind::sigmoid)];
  EXPECT_LE(worst_ulps(kernel, [](double x) { return 1 / (1 + std::exp(-x)); }, 0x1p-126), 4.0);
}

// The approximation of erfc is 1.9e-7 off, of a half of x; the rest is rounding.
TEST_P(EveryLevel, GeluIsWithinThreeTenMillionthsOfItsArgument) {
  const auto kernel = kernels_.activation[static_cast<int>(ActivationKind::gelu)];
  const Floats x = floats_of_all_sizes();
  Floats y(x.size());
  kernel(x.data(), y.data(), x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double x_i = x[i], truth = 0.5 * x_i * std::erfc(-x_i * std::sqrt(0.5));
    if (std::fabs(x_i) >= 0x1p-120) worst = std::max(worst, std::fabs(y[i] - truth) / std::fabs(x_i));
  }
  EXPECT_LE(worst, 3e-7);
}

TEST_P(EveryLevel, FunctionsKeepSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), -0.0f};
  Floats e(4), t(4);
  kernels_.exp(x.data(), e.data(), 4);
  kernels_.tanh(x.data(), t.data(), 4);
  EXPECT_EQ(e[0], kInfinity);
  EXPECT_EQ(e[1], 0.0f);
  EXPECT_TRUE(std::isnan(e[2]));
  EXPECT_EQ(e[3], 1.0f);
  EXPECT_EQ(t[0], 1.0f);
  EXPECT_EQ(t[1], -1.0f);
  EXPECT_TRUE(std::isnan(t[2]));
  EXPECT_EQ(std::bit_cast<uint32_t>(t[3]), 0x80000000u);
}

TEST_P(EveryLevel, AnElementsResultDoesNotDependOnItsPlace) {
  const Floats x = uniform(2, 37, -6, 6), y = uniform(3, 37, -6, 6);
  for (int kind = 0; kind < kActivationKinds; ++kind) {
    Floats whole(37), alone(37);
    kernels_.gated_activation[kind](x.data(), y.data(), whole.data(), 37);
    for (size_t i = 0; i < 37; ++i) kernels_.gated_activation[kind](&x[i], &y[i], &alone[i], 1);
    EXPECT_EQ(bits(whole), bits(alone));
  }
}

// A matrix in a format, at an odd address, and the same numbers in f32.
struct Matrix {
  Matrix(Format format, uint32_t rows, uint32_t columns, uint32_t seed)
      : stride(row_bytes(format, columns) + 2), bytes(rows * stride + 1), decoded(size_t{rows} * columns) {
    const Floats numbers = uniform(seed, decoded.size(), -1, 1);
    for (uint32_t row = 0; row < rows; ++row) {
      store_row(format, std::span(numbers).subspan(size_t{row} * columns, columns), seed + row,
                bytes.data() + 1 + row * stride);
      decode_row(format, bytes.data() + 1 + row * stride, &decoded[size_t{row} * columns], columns);
    }
  }
  uint64_t stride;
  std::vector<std::byte> bytes;
  Floats decoded;
};

struct ProductCase {
  uint32_t outputs = 0, columns = 0, rows = 0;
};
const std::vector<ProductCase> kProductCases = {{1, 32, 1},    {7, 64, 3},    {16, 96, 4},  {33, 544, 5}, {40, 1056, 9},
                                                {50, 256, 70}, {17, 32, 130}, {19, 768, 2}, {33, 512, 40}};

Floats product(ProductKernel kernel, const Matrix& matrix, const ProductCase& one, const std::byte* x,
               uint64_t x_stride) {
  Floats out(size_t{one.outputs} * one.rows, std::numeric_limits<float>::quiet_NaN());
  // A thread's scratch begins on a cache line, as the runner's does.
  Floats room(product_scratch(one.columns) + 16);
  void* scratch = room.data();
  size_t bytes = room.size() * sizeof(float);
  std::align(64, bytes - 64, scratch, bytes);
  const ProductArgs args{.weight = matrix.bytes.data() + 1,
                         .weight_stride = matrix.stride,
                         .x = x,
                         .x_stride = x_stride,
                         .out = out.data(),
                         .out_stride = one.outputs,
                         .columns = one.columns,
                         .rows = one.rows};
  kernel(args, 0, one.outputs, static_cast<float*>(scratch));
  return out;
}

std::vector<std::byte> quantised(const Kernels& kernels, const Floats& x, const ProductCase& one) {
  const uint64_t stride = kernels.quantised_bytes(one.columns);
  std::vector<std::byte> rows(one.rows * stride);
  for (uint32_t row = 0; row < one.rows; ++row)
    kernels.quantise(&x[size_t{row} * one.columns], rows.data() + row * stride, one.columns);
  return rows;
}

Floats product_8bit(const Kernels& kernels, const Matrix& matrix, const ProductCase& one, const Floats& x,
                    Format format = Format::q8_0) {
  const std::vector<std::byte> rows = quantised(kernels, x, one);
  return product(kernels.formats[static_cast<int>(format)].product_8bit, matrix, one, rows.data(),
                 kernels.quantised_bytes(one.columns));
}

// What product_8bit.h says, in plain loops: integer sums of blocks, added up in order.
Floats plain_product_8bit(const Matrix& matrix, const ProductCase& one, const Floats& x, bool fused) {
  Floats out(size_t{one.outputs} * one.rows);
  for (uint32_t row = 0; row < one.rows; ++row)
    for (uint32_t o = 0; o < one.outputs; ++o) {
      float sum = 0;
      for (uint32_t k = 0; k < one.columns; k += 32) {
        const float* from = &x[size_t{row} * one.columns + k];
        Q8_0::Block block;
        std::memcpy(&block, matrix.bytes.data() + 1 + o * matrix.stride + k / 32 * sizeof(block), sizeof(block));
        float largest = 0;
        for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(from[i]));
        int32_t dot = 0;
        for (int i = 0; i < 32; ++i)
          dot += block.q[i] * static_cast<int32_t>(largest > 0 ? std::nearbyint(from[i] * (127.0f / largest)) : 0);
        const float scale = f32_from_f16(block.d) * (largest / 127.0f);
        sum = fused ? std::fma(static_cast<float>(dot), scale, sum) : sum + static_cast<float>(dot) * scale;
      }
      out[size_t{row} * one.outputs + o] = sum;
    }
  return out;
}

// Activations as `quantise` rounds them.
double rounded_to_8_bits(const float* block, uint32_t i) {
  float largest = 0;
  for (int j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(block[j]));
  return std::nearbyint(block[i] * (127.0f / largest)) * static_cast<double>(largest / 127.0f);
}

std::vector<Format> formats_of_8bit_products(const Kernels& kernels) {
  std::vector<Format> formats;
  for (const FormatInfo& info : all_formats())
    if (kernels.formats[static_cast<int>(info.format)].product_8bit != nullptr) formats.push_back(info.format);
  return formats;
}

std::vector<Format> product_formats(const Kernels& kernels) {
  std::vector<Format> formats;
  for (const FormatInfo& info : all_formats())
    if (kernels.formats[static_cast<int>(info.format)].product != nullptr) formats.push_back(info.format);
  return formats;
}

TEST_P(EveryLevel, ProductsTakeEveryFormatThatModelsMayHave) {
  for (const FormatInfo& info : all_formats())
    EXPECT_LE(info.decodable, kernels_.formats[static_cast<int>(info.format)].product != nullptr) << info.name;
}

TEST_P(EveryLevel, RowsDecodeToTheBitsOfTheirFormat) {
  for (const Format format : product_formats(kernels_)) {
    const Matrix matrix(format, 3, 512, 5);
    for (uint32_t row = 0; row < 3; ++row) {
      Floats found(512), expected(&matrix.decoded[size_t{row} * 512], &matrix.decoded[size_t{row} * 512] + 512);
      kernels_.formats[static_cast<int>(format)].decode(matrix.bytes.data() + 1 + row * matrix.stride, found.data(),
                                                        found.size(), 0.375f);
      for (float& x : expected) x *= 0.375f;
      EXPECT_EQ(bits(found), bits(expected)) << format_name(format);
    }
  }
}

TEST_P(EveryLevel, ProductsOfEqualNumbersAreEqualBitsInEveryFormat) {
  for (const Format format : product_formats(kernels_))
    for (const ProductCase& one : kProductCases) {
      if (one.columns % format_info(format).block_elements != 0) continue;
      const Matrix matrix(format, one.outputs, one.columns, 7);
      const Floats x = uniform(8, size_t{one.rows} * one.columns, -2, 2);
      const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
      const Floats found =
          product(kernels_.formats[static_cast<int>(format)].product, matrix, one, bytes, uint64_t{one.columns} * 4);
      Matrix plain(Format::f32, one.outputs, one.columns, 7);
      for (uint32_t row = 0; row < one.outputs; ++row)
        std::memcpy(plain.bytes.data() + 1 + row * plain.stride, &matrix.decoded[size_t{row} * one.columns],
                    size_t{one.columns} * 4);
      const Floats expected = product(kernels_.formats[static_cast<int>(Format::f32)].product, plain, one, bytes,
                                      uint64_t{one.columns} * 4);
      EXPECT_EQ(bits(found), bits(expected)) << format_name(format) << ", " << one.rows << " rows";
    }
}

// Blocks of rows and of columns, and what is left of each.
TEST_P(EveryLevel, ProductsOfManyRowsAreTheBitsOfOne) {
  const ProductCase all{.outputs = 35, .columns = 1100, .rows = 197}, one{.outputs = 35, .columns = 1100, .rows = 1};
  const Floats x = uniform(19, size_t{all.rows} * all.columns, -2, 2);
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  const uint64_t stride = uint64_t{all.columns} * 4;
  for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::f8_e4m3}) {
    const ProductKernel kernel = kernels_.formats[static_cast<int>(format)].product;
    const Matrix matrix(format, all.outputs, all.columns, 20);
    const Floats found = product(kernel, matrix, all, bytes, stride);
    for (uint32_t row = 0; row < all.rows; row += 7) {
      const auto* from = found.data() + size_t{row} * all.outputs;
      EXPECT_EQ(bits(Floats(from, from + all.outputs)),
                bits(product(kernel, matrix, one, bytes + row * stride, stride)))
          << format_name(format) << ", row " << row;
    }
  }
}

// What adapters add: the same sums, scaled. Rows and outputs around the sizes that change the way.
TEST_P(EveryLevel, AddedProductsHaveTheSumsOfProducts) {
  for (const Format format : {Format::f32, Format::f16, Format::bf16})
    for (const uint32_t columns : {1u, 4u, 8u, 15u, 16u, 17u, 33u, 64u})
      for (const uint32_t rows : {1u, 2u, 3u, 4u, 19u}) {
        const ProductCase one{.outputs = 41, .columns = columns, .rows = rows};
        const Matrix matrix(format, one.outputs, columns, 21);
        const Floats x = uniform(22, size_t{rows} * columns, -2, 2), scales = uniform(23, rows, -1, 1);
        const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
        Floats found = uniform(24, size_t{rows} * one.outputs, -3, 3), expected = found;
        Floats scratch(added_scratch(columns));
        const ProductArgs args{.weight = matrix.bytes.data() + 1,
                               .weight_stride = matrix.stride,
                               .x = bytes,
                               .x_stride = uint64_t{columns} * 4,
                               .out = found.data(),
                               .out_stride = one.outputs,
                               .columns = columns,
                               .rows = rows};
        const FormatKernels& kernels = kernels_.formats[static_cast<int>(format)];
        kernels.add(args, scales.data(), 0, 16, scratch.data());
        kernels.add(args, scales.data(), 16, one.outputs, scratch.data());
        const Floats sums = product(kernels.product, matrix, one, bytes, uint64_t{columns} * 4);
        for (uint32_t row = 0; row < rows; ++row)
          kernels_.accumulate(&sums[size_t{row} * one.outputs], scales[row], &expected[size_t{row} * one.outputs],
                              one.outputs);
        EXPECT_EQ(bits(found), bits(expected)) << format_name(format) << ", " << columns << " by " << rows;
      }
}

TEST_P(EveryLevel, EightBitProductsAreThePlainSumsOfBlocks) {
  for (const ProductCase& one : kProductCases) {
    const Matrix matrix(Format::q8_0, one.outputs, one.columns, 9);
    const Floats x = uniform(10, size_t{one.rows} * one.columns, -2, 2);
    const Floats expected = plain_product_8bit(matrix, one, x, GetParam() != SimdLevel::scalar);
    EXPECT_EQ(bits(product_8bit(kernels_, matrix, one, x)), bits(expected)) << one.columns;
  }
}

// What is left is the rounding of the sums: a float's, of the sum of magnitudes.
TEST_P(EveryLevel, EightBitProductsAreThoseOfDecodedWeightsInEveryFormat) {
  for (const Format format : formats_of_8bit_products(kernels_))
    for (const ProductCase& one : kProductCases) {
      if (one.columns % format_info(format).block_elements != 0) continue;
      const Matrix matrix(format, one.outputs, one.columns, 17);
      const Floats x = uniform(18, size_t{one.rows} * one.columns, -2, 2);
      const Floats found = product_8bit(kernels_, matrix, one, x, format);
      for (uint32_t row = 0; row < one.rows; ++row)
        for (uint32_t o = 0; o < one.outputs; ++o) {
          double sum = 0, magnitudes = 0;
          for (uint32_t k = 0; k < one.columns; ++k) {
            const float* block = &x[size_t{row} * one.columns + k / 32 * 32];
            const double term = matrix.decoded[size_t{o} * one.columns + k] * rounded_to_8_bits(block, k % 32);
            sum += term;
            magnitudes += std::fabs(term);
          }
          EXPECT_NEAR(found[size_t{row} * one.outputs + o], sum, 2e-6 * magnitudes) << format_name(format);
        }
    }
}

TEST_P(EveryLevel, EightBitRowsAreTheSameBitsAloneAndAmong300) {
  for (const Format format : formats_of_8bit_products(kernels_)) {
    const ProductCase all{.outputs = 35, .columns = 768, .rows = 300};
    const Matrix matrix(format, all.outputs, all.columns, 19);
    const Floats x = uniform(20, size_t{all.rows} * all.columns, -2, 2);
    const Floats found = product_8bit(kernels_, matrix, all, x, format);
    for (const uint32_t count : {1u, 3u, 16u, 65u}) {
      const uint32_t first = 131;
      const ProductCase some{.outputs = all.outputs, .columns = all.columns, .rows = count};
      const Floats some_x(&x[size_t{first} * all.columns], &x[size_t{first} * all.columns] + count * all.columns);
      const float* expected = &found[size_t{first} * all.outputs];
      EXPECT_EQ(bits(product_8bit(kernels_, matrix, some, some_x, format)),
                bits(Floats(expected, expected + size_t{count} * all.outputs)))
          << format_name(format) << ", " << count << " rows";
    }
  }
}

// Long rows are multiplied fewer at a time, and still longer ones in slices.
TEST_P(EveryLevel, EightBitRowsOfManyColumnsAreTheSameBitsAloneAndAmong100) {
  for (const Format format : {Format::q8_0, Format::q4_k})
    for (const uint32_t columns : {2816u, 4352u}) {
      const ProductCase all{.outputs = 35, .columns = columns, .rows = 100};
      const Matrix matrix(format, all.outputs, columns, 19);
      const Floats x = uniform(20, size_t{all.rows} * columns, -2, 2);
      const Floats found = product_8bit(kernels_, matrix, all, x, format);
      for (uint32_t row = 0; row < all.rows; row += 11) {
        const Floats alone(&x[size_t{row} * columns], &x[size_t{row} * columns] + columns);
        const float* expected = &found[size_t{row} * all.outputs];
        EXPECT_EQ(bits(product_8bit(kernels_, matrix, {.outputs = all.outputs, .columns = columns, .rows = 1}, alone,
                                    format)),
                  bits(Floats(expected, expected + all.outputs)))
            << format_name(format) << ", " << columns << " columns, row " << row;
      }
    }
}

// x rounded to bf16, to nearest even.
float rounded_to_bf16(float x) {
  const auto word = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((word + 0x7fff + (word >> 16 & 1)) & 0xffff0000);
}

Floats product_bf16(const Bf16Kernels& kernels, const Matrix& matrix, const ProductCase& one, const Floats& x) {
  const uint64_t stride = kernels.row_bytes(one.columns);
  std::vector<std::byte> rows(one.rows * stride);
  for (uint32_t row = 0; row < one.rows; ++row)
    kernels.round(&x[size_t{row} * one.columns], rows.data() + row * stride, one.columns);
  return product(kernels.product, matrix, one, rows.data(), stride);
}

// Widths that end within a vector, rows and outputs that end within a tile.
void expect_bf16_products(const Bf16Kernels& kernels) {
  for (const ProductCase& one : {ProductCase{1, 1, 1},
                                 {16, 32, 16},
                                 {7, 47, 3},
                                 {33, 545, 5},
                                 {50, 1056, 70},
                                 {17, 31, 130},
                                 {35, 768, 300},
                                 {32, 3072, 17}}) {
    const Matrix matrix(Format::bf16, one.outputs, one.columns, 31);
    const Floats x = uniform(32, size_t{one.rows} * one.columns, -2, 2);
    const Floats found = product_bf16(kernels, matrix, one, x);
    for (uint32_t row = 0; row < one.rows; ++row)
      for (uint32_t o = 0; o < one.outputs; ++o) {
        double sum = 0, magnitudes = 0;
        for (uint32_t k = 0; k < one.columns; ++k) {
          const double term =
              double{matrix.decoded[size_t{o} * one.columns + k]} * rounded_to_bf16(x[size_t{row} * one.columns + k]);
          sum += term;
          magnitudes += std::fabs(term);
        }
        EXPECT_NEAR(found[size_t{row} * one.outputs + o], sum, 4e-6 * magnitudes) << one.columns << " columns";
      }
    for (const uint32_t row : {0u, one.rows / 2, one.rows - 1}) {
      const Floats x_alone(&x[size_t{row} * one.columns], &x[size_t{row} * one.columns] + one.columns);
      const float* expected = &found[size_t{row} * one.outputs];
      EXPECT_EQ(bits(product_bf16(kernels, matrix, {one.outputs, one.columns, 1}, x_alone)),
                bits(Floats(expected, expected + one.outputs)))
          << one.columns << " columns, row " << row << " of " << one.rows;
    }
  }
}

TEST(Bf16Products, AreThoseOfRoundedActivations) {
  uint32_t levels = 0;
  for (const SimdLevel level : simd_levels()) {
    SCOPED_TRACE(simd_name(level));
    if (simd_info(level).bf16 == nullptr) continue;
    expect_bf16_products(*simd_info(level).bf16);
    ++levels;
  }
  if (levels == 0) GTEST_SKIP() << "no instructions for bf16 here";
}

// As many panels as a matrix has, the last one incomplete.
TEST_P(EveryLevel, PackedWeightsGiveTheBitsOfStoredOnesInEveryFormat) {
  for (const Format format : formats_of_8bit_products(kernels_))
    for (const ProductCase& one : kProductCases) {
      if (one.columns % format_info(format).block_elements != 0) continue;
      const Matrix matrix(format, one.outputs, one.columns, 23);
      const uint64_t stored_row = row_bytes(format, one.columns);
      std::vector<std::byte> packed(packed_bytes(stored_row, one.outputs));
      pack_panels({.packing = kernels_.formats[static_cast<int>(format)].packing,
                   .from = matrix.bytes.data() + 1,
                   .from_stride = matrix.stride,
                   .stored_row = stored_row,
                   .rows = one.outputs,
                   .to = packed.data()},
                  0, (one.outputs + kPanelOutputs - 1) / kPanelOutputs);
      const Floats x = uniform(24, size_t{one.rows} * one.columns, -2, 2);
      const std::vector<std::byte> rows = quantised(kernels_, x, one);
      const FormatKernels& kernels = kernels_.formats[static_cast<int>(format)];
      for (const ProductKernel kernel : {kernels.product_packed, kernels.product_packed_ahead}) {
        Floats out(size_t{one.outputs} * one.rows, std::numeric_limits<float>::quiet_NaN());
        kernel({.weight = packed.data(),
                .weight_stride = stored_row,
                .x = rows.data(),
                .x_stride = kernels_.quantised_bytes(one.columns),
                .out = out.data(),
                .out_stride = one.outputs,
                .columns = one.columns,
                .rows = one.rows},
               0, one.outputs, nullptr);
        EXPECT_EQ(bits(out), bits(product_8bit(kernels_, matrix, one, x, format)))
            << format_name(format) << ", " << one.rows << " rows of " << one.columns;
      }
    }
}

// Integers at both ends of their range: nothing saturates on the way.
TEST_P(EveryLevel, EightBitProductsHoldTheLargestIntegers) {
  const ProductCase one{.outputs = 3, .columns = 64, .rows = 2};
  Matrix matrix(Format::q8_0, one.outputs, one.columns, 11);
  for (uint32_t o = 0; o < one.outputs; ++o)
    for (uint32_t b = 0; b < 2; ++b) {
      Q8_0::Block block{.d = f16_from_f32(1.0f), .q = {}};
      for (int8_t& q : block.q) q = o == 0 ? -128 : 127;
      std::memcpy(matrix.bytes.data() + 1 + o * matrix.stride + b * sizeof(block), &block, sizeof(block));
    }
  const Floats x(size_t{one.rows} * one.columns, -127.0f);
  const Floats found = product_8bit(kernels_, matrix, one, x);
  EXPECT_EQ(found[0], 64.0f * 128 * 127);
  EXPECT_EQ(found[1], -64.0f * 127 * 127);
  EXPECT_EQ(found[5], -64.0f * 127 * 127);
}

TEST_P(EveryLevel, EightBitActivationsAreZeroTinyOrNotFiniteLikeTheirRow) {
  const ProductCase one{.outputs = 1, .columns = 32, .rows = 4};
  const Matrix matrix(Format::q8_0, 1, 32, 12);
  Floats x(128, 0.0f);
  for (size_t i = 32; i < 64; ++i) x[i] = 1e-44f;
  x[70] = std::numeric_limits<float>::quiet_NaN();
  x[100] = -std::numeric_limits<float>::infinity();
  const Floats found = product_8bit(kernels_, matrix, one, x);
  EXPECT_EQ(found[0], 0.0f);
  EXPECT_NEAR(found[1], 0.0f, 1e-40f);
  EXPECT_FALSE(std::isfinite(found[2]));
  EXPECT_FALSE(std::isfinite(found[3]));
}

// Sixteen lanes and one order at every level: with fused multiply-add, the levels agree to the bit.
TEST(CpuLevels, AgreeBitForBitWhereMultiplyAddIsFused) {
  const ProductCase one{.outputs = 33, .columns = 544, .rows = 9};
  const Floats x = uniform(13, size_t{one.rows} * one.columns, -2, 2);
  const Matrix bf16(Format::bf16, one.outputs, one.columns, 14);
  std::vector<std::vector<uint32_t>> products, products_8bit, norms;
  for (const SimdLevel level : simd_levels()) {
    if (level == SimdLevel::scalar) continue;
    const Kernels& kernels = *simd_info(level).kernels;
    products.push_back(bits(product(kernels.formats[static_cast<int>(Format::bf16)].product, bf16, one,
                                    reinterpret_cast<const std::byte*>(x.data()), uint64_t{one.columns} * 4)));
    Floats all_8bit;
    for (const Format format : formats_of_8bit_products(kernels)) {
      const ProductCase narrow{
          .outputs = 33, .columns = format_info(format).block_elements == 256 ? 512u : 544u, .rows = 9};
      const Floats found = product_8bit(kernels, Matrix(format, 33, narrow.columns, 15), narrow, x, format);
      all_8bit.insert(all_8bit.end(), found.begin(), found.end());
    }
    products_8bit.push_back(bits(all_8bit));
    Floats norm(one.columns);
    kernels.rms_norm(x.data(), nullptr, 1e-6f, norm.data(), norm.size());
    kernels.activation[static_cast<int>(ActivationKind::gelu_tanh)](norm.data(), norm.data(), norm.size());
    norms.push_back(bits(norm));
  }
  for (size_t i = 1; i < products.size(); ++i) {
    EXPECT_EQ(products[i], products[0]);
    EXPECT_EQ(products_8bit[i], products_8bit[0]);
    EXPECT_EQ(norms[i], norms[0]);
  }
}

TEST_P(EveryLevel, ExpSumAndLargestTakeAnyLength) {
  for (const size_t n : {1, 15, 16, 17, 100}) {
    const Floats x = uniform(16, n, -5, 5);
    double sum = 0;
    float largest = -100;
    for (const float v : x) {
      largest = std::max(largest, v);
      sum += std::exp(static_cast<double>(v) - 1.5);
    }
    EXPECT_EQ(kernels_.largest(x.data(), n), largest);
    EXPECT_NEAR(kernels_.exp_sum(x.data(), 1.5f, n), sum, 1e-5 * sum);
  }
  EXPECT_EQ(kernels_.largest(nullptr, 0), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace sluice::cpu

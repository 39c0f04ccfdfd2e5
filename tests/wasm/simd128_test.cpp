// The kernels of SIMD128 against those of plain C++, which the tests of tests/device hold: neither has a fused
// multiply-add, so that every result is the same bits. A module, run by cpp_test.mjs.
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/cpu/kernels.h"
#include "device/cpu/packing.h"
#include "graph/program.h"
#include "tests/device/stored_rows.h"

namespace sluice::cpu {
namespace {

using Floats = std::vector<float>;

int g_checks = 0, g_faults = 0;

// NaN are alike, whatever their bits.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

void expect_same(const std::string& what, const Floats& found, const Floats& wanted) {
  ++g_checks;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (same(found[i], wanted[i])) continue;
    ++g_faults;
    std::fprintf(stderr, "%s: element %zu is %.9g: want %.9g\n", what.c_str(), i, static_cast<double>(found[i]),
                 static_cast<double>(wanted[i]));
    return;
  }
}

// Calls f(kernels) for both sets.
template <class Function>
void compare(const std::string& what, const Function& f) {
  expect_same(what, f(kSimd128Kernels), f(kScalarKernels));
}

Floats uniform(uint32_t seed, size_t count, float low, float high) {
  Floats numbers(count);
  for (uint32_t i = 0; i < count; ++i)
    numbers[i] = low + (high - low) * (static_cast<float>(philox4x32({i, 0, 0, 0}, {seed, 0})[0]) * 0x1p-32f);
  return numbers;
}

// Floats of every size and sign, infinities and NaN among them.
Floats all_kinds() {
  Floats all = uniform(1, 100000, -110.0f, 90.0f);
  for (uint64_t word = 0; word < uint64_t{1} << 32; word += 99991)
    all.push_back(std::bit_cast<float>(static_cast<uint32_t>(word)));
  for (const uint32_t word : {0u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u})
    all.push_back(std::bit_cast<float>(word));
  return all;
}

void check_elementwise() {
  const Floats x = all_kinds();
  const Floats y = uniform(2, x.size(), -3, 3);
  const size_t n = x.size();
  const auto of_one = [&](const char* what, const auto& kernel) {
    compare(what, [&](const Kernels& k) {
      Floats out(n);
      kernel(k)(x.data(), out.data(), n);
      return out;
    });
  };
  const auto of_two = [&](const char* what, const auto& kernel) {
    compare(what, [&](const Kernels& k) {
      Floats out(n);
      kernel(k)(x.data(), y.data(), out.data(), n);
      return out;
    });
  };
  of_one("exp", [](const Kernels& k) { return k.exp; });
  of_one("tanh", [](const Kernels& k) { return k.tanh; });
  of_two("add", [](const Kernels& k) { return k.add; });
  of_two("mul", [](const Kernels& k) { return k.mul; });
  for (int kind = 0; kind < kActivationKinds; ++kind) {
    of_one("activation", [&](const Kernels& k) { return k.activation[kind]; });
    of_two("gated activation", [&](const Kernels& k) { return k.gated_activation[kind]; });
  }
  compare("softcap", [&](const Kernels& k) {
    Floats out(n);
    k.softcap(x.data(), 30.0f, out.data(), n);
    return out;
  });
}

void check_sums() {
  for (const size_t n : {1, 3, 16, 37, 256, 1001}) {
    const Floats x = uniform(3, n, -2, 3), weight = uniform(4, n, 0, 2);
    compare("rms_norm", [&](const Kernels& k) {
      Floats out(n);
      k.rms_norm(x.data(), weight.data(), 1e-6f, out.data(), n);
      return out;
    });
    compare("largest and exp_sum",
            [&](const Kernels& k) { return Floats{k.largest(x.data(), n), k.exp_sum(x.data(), 2.5f, n)}; });
    compare("accumulate", [&](const Kernels& k) {
      Floats out = weight;
      k.accumulate(x.data(), 0.3f, out.data(), n);
      return out;
    });
  }
}

struct Matrix {
  static constexpr uint32_t kOutputs = 19, kColumns = 512;
  explicit Matrix(Format format)
      : stride(row_bytes(format, kColumns) + 2), bytes(static_cast<size_t>(kOutputs * stride + 1)) {
    const Floats numbers = uniform(5, size_t{kOutputs} * kColumns, -1, 1);
    for (uint32_t row = 0; row < kOutputs; ++row)
      store_row(format, std::span(numbers).subspan(size_t{row} * kColumns, kColumns), row,
                bytes.data() + 1 + row * stride);
  }
  uint64_t stride;
  std::vector<std::byte> bytes;
};

Floats product(ProductKernel kernel, const Matrix& matrix, uint32_t rows, const void* x, uint64_t x_stride) {
  Floats out(size_t{Matrix::kOutputs} * rows), scratch(product_scratch(Matrix::kColumns));
  const ProductArgs args{.weight = matrix.bytes.data() + 1,
                         .weight_stride = matrix.stride,
                         .x = static_cast<const std::byte*>(x),
                         .x_stride = x_stride,
                         .out = out.data(),
                         .out_stride = Matrix::kOutputs,
                         .columns = Matrix::kColumns,
                         .rows = rows};
  kernel(args, 0, Matrix::kOutputs, scratch.data());
  return out;
}

Floats product_8bit(const Kernels& k, ProductKernel kernel, const Matrix& matrix, uint32_t rows, const Floats& x) {
  const auto stride = static_cast<size_t>(k.quantised_bytes(Matrix::kColumns));
  std::vector<std::byte> quantised(rows * stride);
  for (uint32_t row = 0; row < rows; ++row)
    k.quantise(&x[size_t{row} * Matrix::kColumns], quantised.data() + row * stride, Matrix::kColumns);
  return product(kernel, matrix, rows, quantised.data(), stride);
}

// The same from packed weights.
Floats packed_product(const Kernels& k, const FormatKernels& kernels, const Matrix& matrix, uint32_t rows,
                      const Floats& x) {
  constexpr uint64_t kPanels = (Matrix::kOutputs + kPanelOutputs - 1) / kPanelOutputs;
  const uint64_t stored_row = matrix.stride - 2;
  Matrix packed = matrix;
  packed.stride = stored_row;
  packed.bytes.resize(static_cast<size_t>(kPanels * kPanelOutputs * stored_row + 1));
  pack_panels({.packing = kernels.packing,
               .from = matrix.bytes.data() + 1,
               .from_stride = matrix.stride,
               .stored_row = stored_row,
               .rows = Matrix::kOutputs,
               .to = packed.bytes.data() + 1},
              0, kPanels);
  return product_8bit(k, kernels.product_packed, packed, rows, x);
}

void check_format(Format format) {
  const int at = static_cast<int>(format);
  if (kScalarKernels.formats[at].product == nullptr) return;
  const Matrix matrix(format);
  const std::string name = format_name(format);
  compare(name + " decode", [&](const Kernels& k) {
    Floats out(Matrix::kColumns);
    k.formats[at].decode(matrix.bytes.data() + 1, out.data(), out.size(), 0.7f);
    return out;
  });
  for (const uint32_t rows : {1u, 3u, 20u}) {
    const Floats x = uniform(6, size_t{rows} * Matrix::kColumns, -2, 2);
    compare(name + " product", [&](const Kernels& k) {
      return product(k.formats[at].product, matrix, rows, x.data(), Matrix::kColumns * sizeof(float));
    });
    if (kScalarKernels.formats[at].product_8bit == nullptr) continue;
    compare(name + " 8-bit product",
            [&](const Kernels& k) { return product_8bit(k, k.formats[at].product_8bit, matrix, rows, x); });
    expect_same(name + " product of packed weights",
                packed_product(kSimd128Kernels, kSimd128Kernels.formats[at], matrix, rows, x),
                product_8bit(kScalarKernels, kScalarKernels.formats[at].product_8bit, matrix, rows, x));
  }
}

// Every pattern of 16 bits as an element of a row.
void check_halves(Format format) {
  std::vector<uint16_t> all(1u << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  compare(std::string(format_name(format)) + " of all bits", [&](const Kernels& k) {
    Floats out(all.size());
    k.formats[static_cast<int>(format)].decode(reinterpret_cast<const std::byte*>(all.data()), out.data(), out.size(),
                                               1.0f);
    return out;
  });
}

Floats attend(const CacheKernels& cache, float softcap) {
  constexpr uint32_t kKeyWidth = 40, kValueWidth = 72, kPages = 2, kLast = 100, kQueries = 3;
  const size_t key_page = size_t{kKeyWidth} * kPagePositions * cache.element_bytes;
  const size_t value_page = size_t{cache_width(kValueWidth)} * kPagePositions * cache.element_bytes;
  std::vector<std::byte> keys(kPages * key_page), values(kPages * value_page);
  const Floats key = uniform(7, size_t{kKeyWidth} * (kLast + 1), -1, 1);
  const Floats value = uniform(8, size_t{kValueWidth} * (kLast + 1), -1, 1);
  for (uint32_t position = 0; position <= kLast; ++position) {
    const size_t page = position / kPagePositions;
    const uint32_t within = position % kPagePositions;
    cache.append_key(&key[size_t{position} * kKeyWidth], keys.data() + page * key_page, kKeyWidth, within);
    cache.append_value(&value[size_t{position} * kValueWidth], values.data() + page * value_page, kValueWidth, within);
  }
  const Floats q = uniform(9, size_t{kQueries} * kKeyWidth, -4, 4);
  Floats out(size_t{kQueries} * kValueWidth), scratch(size_t{2} * kQueries * partial_floats(kValueWidth));
  std::array<Query, kQueries> queries;
  for (uint32_t i = 0; i < kQueries; ++i)
    queries[i] = {
        .q = &q[size_t{i} * kKeyWidth], .out = &out[size_t{i} * kValueWidth], .first = i * 30, .last = kLast - i};
  const std::array<int32_t, kPages> pages = {0, 1};
  cache.attend({.queries = queries.data(),
                .count = kQueries,
                .pages = pages.data(),
                .first_page = 0,
                .keys = keys.data(),
                .values = values.data(),
                .key_page_bytes = key_page,
                .value_page_bytes = value_page,
                .key_width = kKeyWidth,
                .value_width = kValueWidth,
                .scale = 0.5f,
                .softcap = softcap,
                .scratch = scratch.data()});
  return out;
}

void check_attention() {
  for (const float softcap : {0.0f, 5.0f}) {
    compare("attention, f32 cache", [&](const Kernels& k) { return attend(k.cache_f32, softcap); });
    compare("attention, f16 cache", [&](const Kernels& k) { return attend(k.cache_f16, softcap); });
    compare("attention, bf16 cache", [&](const Kernels& k) { return attend(k.cache_bf16, softcap); });
  }
}

}  // namespace
}  // namespace sluice::cpu

extern "C" {
// Returns how many comparisons failed, each of which was named.
__attribute__((export_name("faults"))) int faults() {
  using namespace sluice;
  cpu::check_elementwise();
  cpu::check_sums();
  cpu::check_halves(Format::f16);
  cpu::check_halves(Format::bf16);
  for (const FormatInfo& info : all_formats()) cpu::check_format(info.format);
  cpu::check_attention();
  return cpu::g_faults;
}
__attribute__((export_name("checks"))) int checks() { return sluice::cpu::g_checks; }
}

// How fast the CPU's kernels are on one thread: products by format, rows and instruction set, and attention.
//
//   cpu_kernels_bench --benchmark_filter=product/q8_0
//
// bytes_per_second is what is read of weights or caches, FLOP/s two for each multiply-add.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "device/cpu/simd_level.h"
#include "format/format.h"
#include "graph/program.h"

namespace sluice::cpu {
namespace {

constexpr uint32_t kOutputs = 4096, kColumns = 4096;
constexpr uint32_t kHeadWidth = 256;

std::vector<float> ramp(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i % 257) / 128.0f - 1.0f;
  return numbers;
}

struct ProductSetting {
  SimdLevel level{};
  Format format{};
  bool quantised = false;
  uint32_t rows = 0;
};

void count(benchmark::State& state, uint64_t bytes, uint64_t multiply_adds) {
  const auto times = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(multiply_adds) * times, benchmark::Counter::kIsRate);
}

void product(benchmark::State& state, const ProductSetting& setting) {
  const Kernels& kernels = *simd_info(setting.level).kernels;
  const FormatKernels& format = kernels.formats[static_cast<int>(setting.format)];
  const uint64_t stride = row_bytes(setting.format, kColumns);
  std::vector<std::byte> weight(stride * kOutputs);
  const std::vector<float> x = ramp(size_t{setting.rows} * kColumns);
  for (uint32_t o = 0; o < kOutputs; ++o) encode_row(setting.format, x.data(), weight.data() + o * stride, kColumns);
  const uint64_t quantised_stride = kernels.quantised_bytes(kColumns);
  std::vector<std::byte> quantised(quantised_stride * setting.rows);
  for (uint32_t row = 0; row < setting.rows; ++row)
    kernels.quantise(&x[size_t{row} * kColumns], quantised.data() + row * quantised_stride, kColumns);
  std::vector<float> out(size_t{setting.rows} * kOutputs), scratch(size_t{kPanelOutputs} * kColumns);
  const ProductArgs args{.weight = weight.data(),
                         .weight_stride = stride,
                         .x = setting.quantised ? quantised.data() : reinterpret_cast<const std::byte*>(x.data()),
                         .x_stride = setting.quantised ? quantised_stride : uint64_t{kColumns} * 4,
                         .out = out.data(),
                         .out_stride = kOutputs,
                         .columns = kColumns,
                         .rows = setting.rows};
  const ProductKernel kernel = setting.quantised ? format.product_8bit : format.product;
  for (auto _ : state) {
    kernel(args, 0, kOutputs, scratch.data());
    benchmark::DoNotOptimize(out.data());
  }
  count(state, weight.size(), uint64_t{kOutputs} * kColumns * setting.rows);
}

// Queries of one key head over `pages` full pages: eight heads of a decoded token, or sixteen rows of a prompt.
void attention(benchmark::State& state, SimdLevel level, bool f16, uint32_t queries, uint32_t pages) {
  const Kernels& kernels = *simd_info(level).kernels;
  const CacheKernels& cache = f16 ? kernels.cache_f16 : kernels.cache_f32;
  const uint64_t page_bytes = uint64_t{cache.element_bytes} * kPagePositions * kHeadWidth;
  std::vector<std::byte> keys(page_bytes * pages), values(page_bytes * pages);
  const std::vector<float> row = ramp(kHeadWidth);
  std::vector<int32_t> table;
  for (uint32_t page = 0; page < pages; ++page) {
    table.push_back(static_cast<int32_t>(page));
    for (uint32_t position = 0; position < kPagePositions; ++position) {
      cache.append_key(row.data(), keys.data() + page * page_bytes, kHeadWidth, position);
      cache.append_value(row.data(), values.data() + page * page_bytes, kHeadWidth, position);
    }
  }
  std::vector<float> out(size_t{queries} * kHeadWidth), scratch(out.size());
  std::vector<Query> all;
  for (uint32_t i = 0; i < queries; ++i)
    all.push_back({.q = row.data(), .out = &out[size_t{i} * kHeadWidth], .last = pages * kPagePositions - 1});
  const AttendArgs args{.queries = all.data(),
                        .count = queries,
                        .pages = table.data(),
                        .keys = keys.data(),
                        .values = values.data(),
                        .key_page_bytes = page_bytes,
                        .value_page_bytes = page_bytes,
                        .key_width = kHeadWidth,
                        .value_width = kHeadWidth,
                        .scale = 0.0625f,
                        .scratch = scratch.data()};
  for (auto _ : state) {
    cache.attend(args);
    benchmark::DoNotOptimize(out.data());
  }
  count(state, keys.size() + values.size(), uint64_t{queries} * pages * kPagePositions * kHeadWidth * 2);
}

void add_level(SimdLevel level) {
  const std::string name = simd_name(level);
  for (const Format format :
       {Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0, Format::q4_k, Format::q6_k})
    for (const bool quantised : {false, true})
      for (const uint32_t rows : {1u, 16u, 512u}) {
        if (quantised && format_info(format).block_elements == 1) continue;
        const ProductSetting setting{level, format, quantised, rows};
        const std::string title =
            cat("product/", format_name(format), quantised ? "/8bit/" : "/f32/", rows, "_rows/", name);
        benchmark::RegisterBenchmark(title.c_str(), product, setting);
      }
  for (const bool f16 : {false, true})
    for (const uint32_t queries : {1u, 8u, 16u})
      benchmark::RegisterBenchmark(cat("attention/", f16 ? "f16/" : "f32/", queries, "_queries/", name).c_str(),
                                   attention, level, f16, queries, 32u);
}

}  // namespace
}  // namespace sluice::cpu

int main(int argc, char** argv) {
  for (int i = 0; i <= static_cast<int>(sluice::widest_simd_level()); ++i)
    sluice::cpu::add_level(static_cast<sluice::SimdLevel>(i));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

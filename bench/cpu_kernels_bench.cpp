// How fast the CPU's kernels are on one thread: products by format, rows and instruction set, attention by cache,
// queries and depth beside a plain read of memory, and DeepSeek-V3's folded and unfolded.
//
//   cpu_kernels_bench --benchmark_filter=product/q8_0
//   cpu_kernels_bench --benchmark_filter='read|attention/f16/8_.*vnni'
//
// bytes_per_second is what is read of weights or caches, FLOP/s two for each multiply-add.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/large_buffer.h"
#include "device/cpu/packing.h"
#include "device/cpu/plan.h"
#include "device/cpu/simd_level.h"
#include "format/format.h"
#include "graph/program.h"

namespace sluice::cpu {
namespace {

constexpr uint32_t kOutputs = 4096, kColumns = 4096;

std::vector<float> ramp(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i % 257) / 128.0f - 1.0f;
  return numbers;
}

enum class Weights : uint8_t { with_f32, with_8bit, packed };

constexpr const char* kWeightsNames[] = {"/f32/", "/8bit/", "/packed/"};

struct ProductSetting {
  SimdLevel level{};
  Format format{};
  Weights weights{};
  uint32_t rows = 0;
};

void count(benchmark::State& state, uint64_t bytes, uint64_t multiply_adds) {
  const auto times = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(multiply_adds) * times, benchmark::Counter::kIsRate);
}

// As many matrices, or caches of layers, as do not fit into a processor's own memory.
constexpr uint64_t kBeyondCaches = uint64_t{384} << 20;

// Another matrix each time.
void product(benchmark::State& state, const ProductSetting& setting) {
  const Kernels& kernels = *simd_info(setting.level).kernels;
  const FormatKernels& format = kernels.formats[static_cast<int>(setting.format)];
  const bool quantised = setting.weights != Weights::with_f32, packed = setting.weights == Weights::packed;
  const uint64_t stride = row_bytes(setting.format, kColumns), matrix = stride * kOutputs;
  const uint64_t matrices = std::max<uint64_t>(kBeyondCaches / matrix, 1);
  std::vector<std::byte> stored(matrix);
  const std::vector<float> x = ramp(size_t{setting.rows} * kColumns);
  for (uint32_t o = 0; o < kOutputs; ++o) encode_row(setting.format, x.data(), stored.data() + o * stride, kColumns);
  const LargeBuffer weights = *LargeBuffer::take(matrix * matrices, "weights");
  weights.prefer_huge_pages();  // as packed weights lie
  for (uint64_t i = 0; i < matrices; ++i) {
    std::byte* to = weights.data() + i * matrix;
    const PackArgs pack{.packing = format.packing,
                        .from = stored.data(),
                        .from_stride = stride,
                        .stored_row = stride,
                        .rows = kOutputs,
                        .to = to};
    if (packed)
      pack_panels(pack, 0, kOutputs / kPanelOutputs);
    else
      std::copy_n(stored.data(), matrix, to);
  }
  const uint64_t quantised_stride = kernels.quantised_bytes(kColumns);
  std::vector<std::byte> quants(quantised_stride * setting.rows);
  for (uint32_t row = 0; row < setting.rows; ++row)
    kernels.quantise(&x[size_t{row} * kColumns], quants.data() + row * quantised_stride, kColumns);
  std::vector<float> out(size_t{setting.rows} * kOutputs), scratch(product_scratch(kColumns));
  ProductArgs args{.weight = nullptr,
                   .weight_stride = stride,
                   .x = quantised ? quants.data() : reinterpret_cast<const std::byte*>(x.data()),
                   .x_stride = quantised ? quantised_stride : uint64_t{kColumns} * 4,
                   .out = out.data(),
                   .out_stride = kOutputs,
                   .columns = kColumns,
                   .rows = setting.rows};
  const ProductKernel kernel = packed ? packed_product(format) : quantised ? format.product_8bit : format.product;
  uint64_t next = 0;
  for (auto _ : state) {
    args.weight = weights.data() + next++ % matrices * matrix;
    kernel(args, 0, kOutputs, scratch.data());
    benchmark::DoNotOptimize(out.data());
  }
  count(state, matrix, uint64_t{kOutputs} * kColumns * setting.rows);
}

// Of one key head. With latents the value is what keys are made of, too.
struct HeadShape {
  const char* name = "";
  uint32_t key_width = 0, value_width = 0;
  bool latents = false;
};
constexpr HeadShape kHead{"attention", 256, 256};
constexpr HeadShape kFolded{"folded_latents", 64, 512, true};  // DeepSeek-V3, folded
constexpr HeadShape kUnfolded{"unfolded_latents", 192, 128};   // and a head's own keys and values

struct AttentionSetting {
  SimdLevel level{};
  Format cache{};
  HeadShape shape{};
  uint32_t queries = 0;
  uint32_t depth = 0;
};

// Queries of one key head: eight heads of a decoded token, or sixteen rows of a prompt; another layer each time.
void attention(benchmark::State& state, const AttentionSetting& setting) {
  const CacheKernels& cache = *cache_kernels(*simd_info(setting.level).kernels, setting.cache);
  const HeadShape& shape = setting.shape;
  const uint64_t key_bytes = uint64_t{cache.element_bytes} * kPagePositions * shape.key_width;
  const uint64_t value_bytes = uint64_t{cache.element_bytes} * kPagePositions * shape.value_width;
  const uint32_t pages = setting.depth / kPagePositions;
  const uint64_t layer_bytes = (key_bytes + value_bytes) * pages, layers = kBeyondCaches / layer_bytes;
  std::vector<std::byte> keys(key_bytes * pages * layers), values(value_bytes * pages * layers);
  const std::vector<float> row = ramp(shape.key_width + shape.value_width);
  for (uint32_t position = 0; position < kPagePositions; ++position) {
    cache.append_key(row.data(), keys.data(), shape.key_width, position);
    cache.append_value(row.data(), values.data(), shape.value_width, position);
  }
  for (uint64_t page = 1; page < pages * layers; ++page) {
    std::copy_n(keys.data(), key_bytes, keys.data() + page * key_bytes);
    std::copy_n(values.data(), value_bytes, values.data() + page * value_bytes);
  }
  std::vector<int32_t> table(pages);
  std::iota(table.begin(), table.end(), 0);
  std::vector<float> out(size_t{setting.queries} * shape.value_width);
  std::vector<float> scratch(size_t{2} * setting.queries * partial_floats(shape.value_width));
  std::vector<Query> all(setting.queries);
  for (uint32_t i = 0; i < setting.queries; ++i)
    all[i] = {.q = row.data(),
              .latent = shape.latents ? row.data() : nullptr,
              .out = &out[size_t{i} * shape.value_width],
              .last = setting.depth - 1};
  AttendArgs args{.queries = all.data(),
                  .count = setting.queries,
                  .pages = table.data(),
                  .key_page_bytes = key_bytes,
                  .value_page_bytes = value_bytes,
                  .key_width = shape.key_width,
                  .value_width = shape.value_width,
                  .scale = 0.0625f,
                  .scratch = scratch.data()};
  uint64_t layer = 0;
  for (auto _ : state) {
    args.keys = keys.data() + layer * pages * key_bytes;
    args.values = values.data() + layer * pages * value_bytes;
    cache.attend(args);
    benchmark::DoNotOptimize(out.data());
    layer = (layer + 1) % layers;
  }
  const uint64_t widths = shape.key_width + shape.value_width * (shape.latents ? 2 : 1);
  count(state, layer_bytes, uint64_t{setting.queries} * setting.depth * widths);
}

// What the memory gives one thread: the yardstick of attention at depth.
void read_memory(benchmark::State& state) {
  const std::vector<uint64_t> words(kBeyondCaches / sizeof(uint64_t), 1);
  for (auto _ : state) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i < words.size(); i += 8)
      for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    benchmark::DoNotOptimize(sums);
  }
  count(state, words.size() * sizeof(uint64_t), 0);
}

void add_level(SimdLevel level) {
  const std::string name = simd_name(level);
  for (const Format format :
       {Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0, Format::q4_k, Format::q6_k})
    for (const Weights weights : {Weights::with_f32, Weights::with_8bit, Weights::packed})
      for (const uint32_t rows : {1u, 16u, 24u, 128u, 512u}) {
        if (weights != Weights::with_f32 && format_info(format).block_elements == 1) continue;
        const ProductSetting setting{level, format, weights, rows};
        const std::string title =
            cat("product/", format_name(format), kWeightsNames[static_cast<int>(weights)], rows, "_rows/", name);
        benchmark::RegisterBenchmark(title.c_str(), product, setting);
      }
  const auto add = [&](const AttentionSetting& setting) {
    const std::string title = cat(setting.shape.name, "/", format_name(setting.cache), "/", setting.queries,
                                  "_queries/depth_", setting.depth, "/", name);
    benchmark::RegisterBenchmark(title.c_str(), attention, setting);
  };
  for (const Format cache : {Format::f32, Format::f16, Format::bf16})
    for (const uint32_t queries : {1u, 2u, 6u, 8u, 16u})
      for (const uint32_t depth : {128u, 2048u, 16384u}) add({level, cache, kHead, queries, depth});
  for (const HeadShape& shape : {kFolded, kUnfolded})
    for (const Format cache : {Format::f32, Format::f16, Format::bf16}) add({level, cache, shape, 16, 2048});
}

}  // namespace
}  // namespace sluice::cpu

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("read_memory", sluice::cpu::read_memory);
  for (const sluice::SimdLevel level : sluice::simd_levels()) sluice::cpu::add_level(level);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

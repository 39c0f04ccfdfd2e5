#include "device/cpu/products.h"

#include <algorithm>

#include "device/cpu/simd_level.h"

namespace sluice::cpu {
namespace {

uint64_t panels(const Product& product) { return (product.outputs + kPanelOutputs - 1) / kPanelOutputs; }
uint64_t panels(const GatedProduct& product) { return panels(product.gate); }

// A multiply-add costs a quarter of an element operation, because the latter also loads operands and stores a result.
uint64_t panel_cost(const Product& product) {
  return uint64_t{product.args.columns} * product.args.rows * kPanelOutputs / 4;
}
uint64_t panel_cost(const GatedProduct& product) { return panel_cost(product.gate) + panel_cost(product.up); }

uint32_t rows_of(const Product& product) { return product.args.rows; }
uint32_t rows_of(const GatedProduct& product) { return rows_of(product.gate); }
// Rows of a block; 0: all rows are one.
uint32_t block_rows(const Product& product) { return product.additions.empty() ? product.block_rows : 0; }
uint32_t block_rows(const GatedProduct& product) { return product.up.additions.empty() ? block_rows(product.gate) : 0; }

// The blocks of rows that are split among threads, at least one.
template <class Job>
uint64_t row_blocks(const Job& job) {
  if (block_rows(job) == 0 || rows_of(job) == 0) return 1;
  return (rows_of(job) + block_rows(job) - 1) / block_rows(job);
}
Product block_of(const Product& product, uint64_t row, uint64_t count) { return Products::part(product, row, count); }
GatedProduct block_of(const GatedProduct& product, uint64_t row, uint64_t count) {
  return {.gate = block_of(product.gate, row, count),
          .up = block_of(product.up, row, count),
          .out = product.out + row * product.gate.args.out_stride};
}

// Splits the panels of all jobs together among threads; each block of rows has panels of its own. Calls body(job, first
// output, last output, thread), where the job has the rows of the block. The loop copies `jobs` and `body`, so that
// other threads need not fetch the caller's stack before they begin.
template <class Job, class Body>
void share_out_panels(ThreadPool& pool, std::span<const Job> jobs, const Body& body) {
  uint64_t all = 0, cost = 0;
  for (const Job& job : jobs) {
    all += panels(job) * row_blocks(job);
    cost = std::max(cost, panel_cost(job) / row_blocks(job));
  }
  share_out(pool, all, cost, [jobs, body](const Share& share) {
    uint64_t begin = 0;  // of the block's panels
    for (const Job& job : jobs) {
      const uint64_t blocks = row_blocks(job);
      for (uint64_t block = 0; block < blocks; ++block) {
        const uint64_t end = begin + panels(job);
        const uint64_t first = std::max<uint64_t>(begin, share.first), last = std::min<uint64_t>(end, share.last);
        if (first < last) {
          const uint64_t row = block * block_rows(job);
          const uint64_t from = (first - begin) * kPanelOutputs, to = (last - begin) * kPanelOutputs;
          if (blocks == 1)
            body(job, from, to, share.thread);
          else
            body(block_of(job, row, std::min<uint64_t>(rows_of(job) - row, block_rows(job))), from, to, share.thread);
        }
        begin = end;
      }
    }
  });
}

// Rows of a part of a first product: enough for the kernel of many rows (kernels/product_blocks.h).
constexpr uint32_t kFirstRows = 128;
// Rows of a block of a product with bf16 activations. A tower has thousands, which do not fit the second cache, so that
// each piece of the loop would fetch all of them anew.
constexpr uint32_t kBf16Rows = 128;
// Results that wait in the first caches for what is added to them.
constexpr uint64_t kWaitingResults = 16384;

Results place_of(const Product& product) { return {.out = product.args.out, .stride = product.args.out_stride}; }

// Outputs to multiply before what is added to them is: whole panels, in pairs as the kernels of tiles like them.
uint64_t outputs_at_once(const Product& product) {
  constexpr uint64_t kPair = 2 * kPanelOutputs;
  return std::max(kWaitingResults / product.args.rows / kPair * kPair, kPair);
}

}  // namespace

void FirstProducts::clear() {
  parts_.clear();
  shared_.offer(0);
}

void FirstProducts::add(const Product& product) {
  for (uint64_t row = 0; row < product.args.rows; row += kFirstRows) {
    const Product rows = Products::part(product, row, std::min<uint64_t>(kFirstRows, product.args.rows - row));
    for (uint64_t first = 0; first < product.outputs; first += kPanelOutputs)
      parts_.push_back({.product = rows, .first = first, .last = first + kPanelOutputs});
  }
  shared_.offer(parts_.size());
}

Activations Products::prepare(const float* x, uint64_t rows, std::span<const WeightId> weights) const {
  return prepare_part(x, 0, rows, weights);
}

Activations Products::prepare_part(const float* x, uint64_t first, uint64_t count,
                                   std::span<const WeightId> weights) const {
  const uint32_t columns = memory_.weight(weights[0]).shape.columns;
  Activations activations{.x = x, .rows = first + count, .columns = columns};
  const auto make = [&](auto row_of, uint64_t stride, std::byte* to) {
    share_out(pool_, count, columns, [&](const Share& share) {
      for (uint64_t row = first + share.first; row < first + share.last; ++row)
        row_of(x + row * columns, to + row * stride, columns);
    });
    return to;
  };
  if (std::ranges::any_of(weights, [&](WeightId weight) { return plan_.takes_8bit(weight); }))
    activations.quantised =
        make(plan_.kernels().quantise, plan_.kernels().quantised_bytes(columns), memory_.quantised());
  if (std::ranges::any_of(weights, [&](WeightId weight) { return plan_.takes_bf16(weight); }))
    activations.bf16 = make(plan_.bf16()->round, plan_.bf16()->row_bytes(columns), memory_.bf16());
  return activations;
}

Product Products::product(const Activations& x, WeightId weight, float* out, uint32_t expert) const {
  Product product = product_of_reals(x.x, x.rows, weight, out, expert);
  if (plan_.takes_bf16(weight)) {
    product.args.x = x.bf16;
    product.args.x_stride = plan_.bf16()->row_bytes(x.columns);
    product.kernel = plan_.bf16()->product;
    product.block_rows = kBf16Rows;
    return product;
  }
  if (!plan_.takes_8bit(weight)) return product;
  const TensorSource& source = memory_.weight(weight);
  const FormatKernels& format = plan_.kernels().formats[static_cast<int>(source.format)];
  product.args.x = x.quantised;
  product.args.x_stride = plan_.kernels().quantised_bytes(x.columns);
  product.kernel = format.product_8bit;
  if (const std::byte* packed = memory_.packed().find(weight, expert); packed != nullptr) {
    product.args.weight = packed;
    product.args.weight_stride = row_bytes(source.format, source.shape.columns);
    product.kernel = packed_product(format);
  }
  return product;
}

Product Products::product_of_reals(const float* x, uint64_t rows, WeightId weight, float* out, uint32_t expert) const {
  const WeightShape& shape = memory_.weight(weight).shape;
  ProductArgs args = memory_.matrix(weight, expert);
  args.x = reinterpret_cast<const std::byte*>(x);
  args.x_stride = uint64_t{shape.columns} * 4;
  args.out = out;
  args.out_stride = shape.rows;
  args.rows = static_cast<uint32_t>(rows);
  return {.kernel = plan_.product_kernel(weight), .args = args, .outputs = shape.rows};
}

Addition Products::addition(const float* inner, WeightId weight, float* out, const float* scales, uint32_t expert,
                            uint64_t first_row, uint64_t count) const {
  const TensorSource& source = memory_.weight(weight);
  const Product all = product_of_reals(inner, first_row + count, weight, out, expert);
  const AddKernel kernel = plan_.kernels().formats[static_cast<int>(source.format)].add;
  CHECK(kernel != nullptr);
  return {.kernel = kernel, .args = part(all, first_row, count).args, .scales = scales + first_row};
}

Product Products::part(Product product, uint64_t first_row, uint64_t count) {
  CHECK(product.additions.empty());
  product.args.x += first_row * product.args.x_stride;
  product.args.out += first_row * product.args.out_stride;
  product.args.rows = static_cast<uint32_t>(count);
  return product;
}

void Products::take_first(uint32_t thread) {
  first_.take([&](const Product& product, uint64_t first, uint64_t last) {
    multiply(product, place_of(product), first, last, thread);
  });
}

void Products::multiply(const Product& product, const Results& to, uint64_t first, uint64_t last, uint32_t thread) {
  // Arguments of the product, or of an addition that begins at one of its rows, with results in `to`.
  const auto placed = [&](ProductArgs args) {
    const auto row = static_cast<uint64_t>(args.out - product.args.out) / args.out_stride;
    args.out = to.out + row * to.stride;
    args.out_stride = to.stride;
    return args;
  };
  const ProductArgs args = placed(product.args);
  last = std::min<uint64_t>(last, product.outputs);
  const uint64_t step = product.additions.empty() ? last - first : outputs_at_once(product);
  for (; first < last; first += step) {
    const auto from = static_cast<uint32_t>(first), end = static_cast<uint32_t>(std::min(first + step, last));
    product.kernel(args, from, end, memory_.thread(thread));
    if (product.additions.empty()) return;
    first_.wait();
    for (const Addition& one : product.additions)
      one.kernel(placed(one.args), one.scales, from, end, memory_.thread(thread));
  }
}

void Products::multiply(std::span<const Product> products) {
  share_out_panels(pool_, products, [this](const Product& product, uint64_t first, uint64_t last, uint32_t thread) {
    if (!product.additions.empty()) take_first(thread);
    multiply(product, place_of(product), first, last, thread);
  });
}

void Products::multiply(std::span<const GatedProduct> products, ActivationKind kind) {
  const auto activate = plan_.kernels().gated_activation[static_cast<int>(kind)];
  share_out_panels(pool_, products,
                   [this, activate](const GatedProduct& product, uint64_t first, uint64_t last, uint32_t thread) {
                     if (!product.gate.additions.empty() || !product.up.additions.empty()) take_first(thread);
                     multiply(product.gate, place_of(product.gate), first, last, thread);
                     multiply(product.up, place_of(product.up), first, last, thread);
                     const ProductArgs& gate = product.gate.args;
                     const uint64_t n = std::min<uint64_t>(last, product.gate.outputs) - first;
                     for (uint64_t row = 0; row < gate.rows; ++row) {
                       const uint64_t at = row * gate.out_stride + first;
                       activate(gate.out + at, product.up.args.out + at, product.out + at, n);
                     }
                   });
}

}  // namespace sluice::cpu

// The products of training on several threads.
//
// Transposed products share out columns: a thread decodes a block of weights, rows of them by some columns, and adds
// its products to those columns of all rows, or of some if there are more threads. The sum over outputs has one order.
// In fast arithmetic the weights and the rows are rounded to 8 bits where the product itself does that to its rows.
#include <algorithm>
#include <array>
#include <cmath>

#include "device/cpu/executor.h"
#include "device/cpu/kernels/quantise.h"

namespace sluice::cpu {
namespace {

// Of a block of decoded weights. The columns are whole blocks of every format.
constexpr uint64_t kBlockColumns = 256, kBlockRows = 128;
static_assert(kBlockColumns * kBlockRows <= kBlockScratch);
static_assert(kColumnPanels * kPanelOutputs == kBlockColumns);
static_assert(kColumnsScratch + kBlockColumns * kQuantElements <= kBlockScratch);
// Of columns, for each thread; and the rows of one, at least.
constexpr uint64_t kPiecesPerThread = 4, kLeastRows = 128;

}  // namespace

// Columns [first, first + n) of a row; `first` is a multiple of kBlockColumns.
void Executor::decode_part(WeightId weight, uint32_t expert, uint64_t row, uint64_t first, uint64_t n, float* to) {
  const TensorSource& source = memory_.weight(weight);
  if (source.parts.empty() && !source.grid) {
    const std::byte* from = source.row(expert, row) + row_bytes(source.format, first);
    return kernels_.formats[static_cast<int>(source.format)].decode(from, to, n, 1.0f);
  }
  std::vector<float> whole(source.shape.columns);
  memory_.decode(weight, expert, static_cast<uint32_t>(row), whole.data(), 1.0f);
  std::copy_n(whole.data() + first, n, to);
}

// out[r] += transposed W x[r] for columns [first, first + n), n <= kBlockColumns.
void Executor::add_transposed(WeightId weight, const TransposedRows& rows, uint64_t first, uint32_t thread) {
  const WeightShape& shape = memory_.weight(weight).shape;
  const uint64_t n = std::min<uint64_t>(kBlockColumns, shape.columns - first);
  float* block = memory_.thread(thread);
  for (uint64_t o = 0; o < shape.rows; o += kBlockRows) {
    const uint64_t depth = std::min<uint64_t>(kBlockRows, shape.rows - o);
    for (uint64_t i = 0; i < depth; ++i) decode_part(weight, rows.expert, o + i, first, n, block + i * kBlockColumns);
    kernels_.multiply_add({.left = rows.x + o,
                           .left_row_stride = rows.x_stride,
                           .left_stride = 1,
                           .right = block,
                           .right_stride = kBlockColumns,
                           .out = rows.out + first,
                           .out_stride = rows.out_stride,
                           .rows = rows.count,
                           .depth = depth,
                           .columns = n});
  }
}

// The same from rows of 8-bit blocks: weights are decoded and rounded, some panels of columns at a time.
void Executor::add_transposed_8bit(WeightId weight, const TransposedRows& rows, uint64_t first, uint32_t thread) {
  const WeightShape& shape = memory_.weight(weight).shape;
  const uint64_t n = std::min<uint64_t>(kBlockColumns, shape.columns - first);
  const uint64_t blocks = shape.rows / kQuantElements;
  const uint64_t x_stride = kernels_.quantised_bytes(shape.rows);
  const uint64_t block_bytes = kernels_.quantised_bytes(kQuantElements);
  float *panels = memory_.thread(thread), *decoded = panels + kColumnsScratch;
  for (uint64_t block = 0; block < blocks; block += kColumnBlocks) {
    const auto some = static_cast<uint32_t>(std::min<uint64_t>(kColumnBlocks, blocks - block));
    for (uint32_t i = 0; i < some; ++i) {
      for (uint64_t row = 0; row < kQuantElements; ++row)
        decode_part(weight, rows.expert, (block + i) * kQuantElements + row, first, n, decoded + row * kBlockColumns);
      kernels_.round_columns(decoded, kBlockColumns, static_cast<uint32_t>(n), i, panels);
    }
    kernels_.add_columns({.panels = panels,
                          .blocks = some,
                          .x = rows.quantised + block * block_bytes,
                          .x_stride = x_stride,
                          .out = rows.out + first,
                          .out_stride = rows.out_stride,
                          .rows = static_cast<uint32_t>(rows.count),
                          .columns = static_cast<uint32_t>(n),
                          .begins = block == 0});
  }
}

// Blocks of columns, of fewer rows where threads would have nothing to do: each part decodes its weights.
void Executor::cut_transposed(const WeightShape& shape, std::span<const TransposedRows> groups) {
  const uint64_t blocks = groups.size() * ((shape.columns + kBlockColumns - 1) / kBlockColumns);
  const uint64_t wanted = uint64_t{pool_.threads()} * kPiecesPerThread;
  transposed_parts_.clear();
  for (const TransposedRows& group : groups) {
    const uint64_t cuts = std::clamp<uint64_t>(wanted / blocks, 1, (group.count + kLeastRows - 1) / kLeastRows);
    const uint64_t rows = (group.count + cuts - 1) / cuts;
    for (uint64_t row = 0; row < group.count; row += rows) {
      TransposedRows part = group;
      part.x += row * group.x_stride;
      part.out += row * group.out_stride;
      part.count = std::min(rows, group.count - row);
      if (part.quantised != nullptr) part.quantised += row * kernels_.quantised_bytes(shape.rows);
      for (uint64_t first = 0; first < shape.columns; first += kBlockColumns)
        transposed_parts_.push_back({.rows = part, .first = first});
    }
  }
}

void Executor::multiply_transposed(WeightId weight, std::span<const TransposedRows> groups, bool in_8bit) {
  if (groups.empty()) return;
  const WeightShape& shape = memory_.weight(weight).shape;
  uint64_t count = 0;
  std::vector<TransposedRows> prepared(groups.begin(), groups.end());
  for (TransposedRows& group : prepared) {
    if (in_8bit) group.quantised = memory_.quantised() + count * kernels_.quantised_bytes(shape.rows);
    count += group.count;
  }
  if (in_8bit)
    share_out(pool_, count, shape.rows, [&](const Share& share) {
      for (uint64_t row = share.first; row < share.last; ++row)
        kernels_.quantise(groups[0].x + row * groups[0].x_stride,
                          memory_.quantised() + row * kernels_.quantised_bytes(shape.rows), shape.rows);
    });
  cut_transposed(shape, prepared);
  const uint64_t most =
      std::ranges::max(transposed_parts_, {}, [](const auto& one) { return one.rows.count; }).rows.count;
  share_out(pool_, transposed_parts_.size(), kBlockColumns * shape.rows * (most + 4) / 4, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) {
      const auto& [rows, first] = transposed_parts_[i];
      if (in_8bit) {
        add_transposed_8bit(weight, rows, first, share.thread);
        continue;
      }
      const uint64_t n = std::min<uint64_t>(kBlockColumns, shape.columns - first);
      for (uint64_t row = 0; row < rows.count; ++row) std::fill_n(rows.out + row * rows.out_stride + first, n, 0.0f);
      add_transposed(weight, rows, first, share.thread);
    }
  });
}

void Executor::run(const LinearTransposed& op) {
  if (rows(op.x) == 0) return;
  const TransposedRows all{.x = reals(op.x),
                           .x_stride = columns(op.x),
                           .out = result(op.out),
                           .out_stride = columns(op.out),
                           .count = rows(op.x)};
  multiply_transposed(op.weight, std::span(&all, 1), plan_.takes_8bit_transposed(op.weight));
}

void Executor::run(const OuterSum& op) {
  const uint64_t m = columns(op.left), n = columns(op.right);
  share_out(pool_, m, n * (rows(op.left) / 4 + 1), [&](const Share& share) {
    const uint64_t count = share.last - share.first;
    float* out = result(op.out, share.first);
    std::fill_n(out, count * n, 0.0f);
    kernels_.multiply_add({.left = reals(op.left) + share.first,
                           .left_row_stride = 1,
                           .left_stride = m,
                           .right = reals(op.right),
                           .right_stride = n,
                           .out = out,
                           .out_stride = n,
                           .rows = count,
                           .depth = rows(op.left),
                           .columns = n});
    kernels_.scale(out, op.factor, out, count * n);
  });
}

// Choices in ascending order of expert and row, and the runs of each expert.
void Executor::group_choices(ValueId index, uint32_t experts, uint64_t choices) {
  chosen_.clear();
  expert_rows_.clear();
  const uint64_t k = index == kNone ? experts : columns(index);
  for (uint64_t choice = 0; choice < choices; ++choice) {
    const uint64_t row = choice / k, i = choice % k;
    const auto expert = static_cast<uint32_t>(index == kNone ? static_cast<int64_t>(i) : integers(index, row)[i]);
    CHECK(expert < experts);
    chosen_.push_back({.expert = expert, .row = static_cast<uint32_t>(choice)});
  }
  std::ranges::sort(chosen_, [](const Chosen& a, const Chosen& b) {
    return a.expert != b.expert ? a.expert < b.expert : a.row < b.row;
  });
  for (uint64_t i = 0; i < chosen_.size(); ++i) {
    if (expert_rows_.empty() || expert_rows_.back().expert != chosen_[i].expert)
      expert_rows_.push_back({.expert = chosen_[i].expert, .first = i});
    ++expert_rows_.back().count;
  }
}

// Rows of x in the order of group_choices(); x has one row for `choices_a_row` choices.
void Executor::gather_choices(ValueId x, uint64_t choices_a_row, float* to) {
  const uint64_t width = columns(x);
  share_out(pool_, chosen_.size(), width, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i)
      std::copy_n(reals(x, chosen_[i].row / choices_a_row), width, to + i * width);
  });
}

void Executor::scatter_choices(const float* from, ValueId out) {
  const uint64_t width = columns(out);
  share_out(pool_, chosen_.size(), width, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i)
      std::copy_n(from + i * width, width, result(out, chosen_[i].row));
  });
}

void Executor::run(const ExpertLinear& op) {
  const WeightShape& shape = memory_.weight(op.weight).shape;
  const uint64_t k = op.index == kNone ? shape.experts : columns(op.index);
  group_choices(op.index, shape.experts, rows(op.out));
  gather_choices(op.x, op.by_choice ? 1 : k, memory_.expert_rows());
  product_list_.clear();
  for (const ExpertRows& one : expert_rows_)
    product_list_.push_back(Products::part(
        products_.product_of_reals(memory_.expert_rows(), chosen_.size(), op.weight, memory_.expert_gate(), one.expert),
        one.first, one.count));
  products_.multiply(product_list_);
  scatter_choices(memory_.expert_gate(), op.out);
}

void Executor::run(const ExpertLinearTransposed& op) {
  const WeightShape& shape = memory_.weight(op.weight).shape;
  group_choices(op.index, shape.experts, rows(op.out));
  gather_choices(op.x, 1, memory_.expert_rows());
  std::vector<TransposedRows> groups;
  groups.reserve(expert_rows_.size());
  for (const ExpertRows& one : expert_rows_)
    groups.push_back({.expert = one.expert,
                      .x = memory_.expert_rows() + one.first * shape.rows,
                      .x_stride = shape.rows,
                      .out = memory_.expert_gate() + one.first * shape.columns,
                      .out_stride = shape.columns,
                      .count = one.count});
  multiply_transposed(op.weight, groups, plan_.takes_8bit_transposed(op.weight));
  scatter_choices(memory_.expert_gate(), op.out);
}

void Executor::run(const ExpertOuterSum& op) {
  const uint64_t m = columns(op.left), n = columns(op.right), k = op.index == kNone ? op.experts : columns(op.index);
  group_choices(op.index, op.experts, rows(op.left));
  gather_choices(op.left, 1, memory_.expert_rows());
  gather_choices(op.right, op.by_choice ? 1 : k, memory_.expert_gate());
  share_out(pool_, rows(op.out), n, [&](const Share& share) {
    std::fill_n(result(op.out, share.first), (share.last - share.first) * n, 0.0f);
  });
  share_out(pool_, expert_rows_.size(), m * n * (chosen_.size() / 4 + 1), [&](const Share& share) {
    for (const ExpertRows& one : std::span(expert_rows_).subspan(share.first, share.last - share.first)) {
      float* out = result(op.out, one.expert * m);
      kernels_.multiply_add({.left = memory_.expert_rows() + one.first * m,
                             .left_row_stride = 1,
                             .left_stride = m,
                             .right = memory_.expert_gate() + one.first * n,
                             .right_stride = n,
                             .out = out,
                             .out_stride = n,
                             .rows = m,
                             .depth = one.count,
                             .columns = n});
      kernels_.scale(out, op.factor, out, m * n);
    }
  });
}

void Executor::run(const CrossEntropy& op) {
  if (op.d_b != kNone) std::fill_n(result(op.d_b), rows(op.d_b) * columns(op.d_b), 0.0f);
  const uint64_t block = loss_rows(memory_.weight(op.weight).shape.rows);
  for (uint64_t first = 0; first < rows(op.x); first += block)
    lose_block(op, first, std::min(block, rows(op.x) - first));
}

// The logits of some rows become their gradients in place. The loss is computed in f32 in any arithmetic.
void Executor::lose_block(const CrossEntropy& op, uint64_t first, uint64_t count) {
  const WeightShape& shape = memory_.weight(op.weight).shape;
  const uint64_t stride = loss_stride(shape.rows);
  float* logits = memory_.loss_logits();
  Product product = products_.product_of_reals(reals(op.x, first), count, op.weight, logits, 0);
  product.args.out_stride = stride;
  begin_adapters();
  if (op.inner != kNone) {
    std::fill_n(memory_.adapter_scales(), count, op.factor);
    additions_.push_back(
        products_.addition(reals(op.inner, first), op.b, logits, memory_.adapter_scales(), 0, 0, count));
    additions_.back().args.out_stride = stride;
  }
  product.additions = additions_;
  products_.multiply(std::span(&product, 1));
  share_out(pool_, count, shape.rows * 8, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) lose_row(op, first + i, logits + i * stride);
  });
  if (!op.has_gradients()) return;
  const TransposedRows back{
      .x = logits, .x_stride = stride, .out = result(op.d_x, first), .out_stride = shape.columns, .count = count};
  multiply_transposed(op.weight, std::span(&back, 1), /*in_8bit=*/false);
  if (op.inner != kNone) lose_adapter(op, first, count);
}

void Executor::lose_row(const CrossEntropy& op, uint64_t row, float* y) {
  const uint64_t n = memory_.weight(op.weight).shape.rows;
  const auto target = static_cast<uint64_t>(*integers(op.target, row));
  CHECK(target < n);
  if (op.softcap > 0) kernels_.softcap(y, op.softcap, y, n);
  const float largest = kernels_.largest(y, n), sum = kernels_.exp_sum(y, largest, n);
  const float of_target = y[target], share = *reals(op.share, row), factor = share / sum;
  *result(op.loss, row) = std::log(sum) + largest - of_target;
  if (!op.has_gradients()) return;
  constexpr uint64_t kPart = 1024;
  for (uint64_t at = 0; at < n; at += kPart) {
    float p[kPart];
    const uint64_t count = std::min(kPart, n - at);
    for (uint64_t i = 0; i < count; ++i) p[i] = y[at + i] - largest;
    kernels_.exp(p, p, count);
    for (uint64_t i = 0; i < count; ++i) {
      float d = p[i] * factor;
      if (at + i == target) d -= share;
      const float capped = op.softcap > 0 ? y[at + i] / op.softcap : 0.0f;
      y[at + i] = d * (1.0f - capped * capped);
    }
  }
}

void Executor::lose_adapter(const CrossEntropy& op, uint64_t first, uint64_t count) {
  const uint64_t vocabulary = memory_.weight(op.weight).shape.rows, rank = columns(op.inner);
  const uint64_t stride = loss_stride(vocabulary);
  const float* d_logits = memory_.loss_logits();
  const TransposedRows back{
      .x = d_logits, .x_stride = stride, .out = result(op.d_inner, first), .out_stride = rank, .count = count};
  multiply_transposed(op.b, std::span(&back, 1), /*in_8bit=*/false);
  kernels_.scale(back.out, op.factor, back.out, count * rank);
  // The factor is on the rows of inner, so that sums of several blocks go on.
  float* inner = memory_.adapter_inner();
  kernels_.scale(reals(op.inner, first), op.factor, inner, count * rank);
  share_out(pool_, vocabulary, rank * (count / 4 + 1), [&](const Share& share) {
    kernels_.multiply_add({.left = d_logits + share.first,
                           .left_row_stride = 1,
                           .left_stride = stride,
                           .right = inner,
                           .right_stride = rank,
                           .out = result(op.d_b, share.first),
                           .out_stride = rank,
                           .rows = share.last - share.first,
                           .depth = count,
                           .columns = rank});
  });
}

}  // namespace sluice::cpu

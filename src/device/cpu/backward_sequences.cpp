// Gradients in which rows of a sequence see one another, on several threads.
//
// attention_backward makes each score twice: once for the queries' gradients, which blocks of queries share out, once
// for those of keys and values, which blocks of keys share out. So no sum is split, and nothing of the size of all
// scores is kept.
#include <algorithm>
#include <cmath>

#include "device/cpu/executor.h"

namespace sluice::cpu {

void Executor::find_sequences() {
  sequence_rows_.clear();
  const std::span<const int32_t> all = step_->row_sequences();
  for (uint64_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && all[end] == all[first]) ++end;
    sequence_rows_.push_back({.first = first, .end = end});
  }
}

// Blocks are counted from the beginning of their sequence, so that its bits do not depend on others in the step.
void Executor::cut_backward(const AttentionBackward& op) {
  find_sequences();
  query_parts_.clear();
  key_parts_.clear();
  seen_rows_.clear();
  const Attention forward = op.forward();
  for (uint64_t row = 0; row < rows(op.q); ++row) {
    const Seen range = seen(forward, *step_, row);
    seen_rows_.push_back({.first = range.row_of(range.first), .end = uint64_t{range.row_of(range.last)} + 1});
  }
  uint64_t row = 0;
  for (const RowRange& sequence : sequence_rows_) {
    const uint64_t first = row;
    while (row < rows(op.q) && step_row(op.q, row) < sequence.end) ++row;
    for (uint64_t at = first; at < row; at += kQueryBlock)
      query_parts_.push_back({.row = at, .rows = std::min<uint64_t>(kQueryBlock, row - at), .sequence = sequence});
    for (uint64_t key = sequence.first; key < sequence.end; key += kKeyBlock)
      key_parts_.push_back({.row = first,
                            .rows = row - first,
                            .sequence = sequence,
                            .key = key,
                            .keys = std::min<uint64_t>(kKeyBlock, sequence.end - key)});
  }
}

void Executor::run(const AttentionBackward& op) {
  cut_backward(op);
  const uint64_t heads = type(op.q).heads, kv_heads = type(op.k).heads;
  const uint64_t cost = kQueryBlock * uint64_t{kKeyBlock} * (type(op.q).width + type(op.v).width);
  share_out(pool_, query_parts_.size() * heads, cost, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) {
      ScoreBlock block = query_parts_[i / heads];
      block.head = static_cast<uint32_t>(i % heads);
      query_gradients(op, block, share.thread);
    }
  });
  share_out(pool_, key_parts_.size() * kv_heads, cost, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) {
      ScoreBlock block = key_parts_[i / kv_heads];
      block.kv_head = static_cast<uint32_t>(i % kv_heads);
      key_gradients(op, block, share.thread);
    }
  });
}

// scores[i][j] = x[block.row + i] . y[block.key + j], both of one head.
void Executor::meet(const ScoreBlock& block, const HeadOf& x, const HeadOf& y, float* scores, float* scratch) {
  const float* weight = reals(y.value, block.key) + uint64_t{y.head} * type(y.value).width;
  const float* row = reals(x.value, block.row) + uint64_t{x.head} * type(x.value).width;
  const ProductArgs args{.weight = reinterpret_cast<const std::byte*>(weight),
                         .weight_stride = columns(y.value) * sizeof(float),
                         .x = reinterpret_cast<const std::byte*>(row),
                         .x_stride = columns(x.value) * sizeof(float),
                         .out = scores,
                         .out_stride = kKeyBlock,
                         .columns = type(x.value).width,
                         .rows = static_cast<uint32_t>(block.rows)};
  kernels_.formats[static_cast<int>(Format::f32)].product(args, 0, static_cast<uint32_t>(block.keys), scratch);
}

// A block of queries meets a block of keys. Scores are scaled and capped, and -infinity where a query does not see.
void Executor::make_scores(const AttentionBackward& op, const ScoreBlock& block, float* scores, float* scratch) {
  meet(block, {op.q, block.head}, {op.k, block.kv_head}, scores, scratch);
  for (uint64_t i = 0; i < block.rows; ++i) {
    float* line = scores + i * kKeyBlock;
    kernels_.scale(line, op.scale, line, block.keys);
    if (op.softcap > 0) kernels_.softcap(line, op.softcap, line, block.keys);
    const RowRange& range = seen_rows_[block.row + i];
    for (uint64_t j = 0; j < block.keys; ++j)
      if (block.key + j < range.first || block.key + j >= range.end) line[j] = -__builtin_inff();
  }
}

bool Executor::any_sees(const ScoreBlock& block) const {
  for (uint64_t i = 0; i < block.rows; ++i) {
    const RowRange& range = seen_rows_[block.row + i];
    if (range.first < block.key + block.keys && block.key < range.end) return true;
  }
  return false;
}

// Calls body(part) for the block if every query sees all of its keys, else for each query and the keys that it sees.
// What a query does not see may be no number, so its share of 0 must not be multiplied.
template <class Body>
void Executor::each_seen(const ScoreBlock& block, const Body& body) {
  const uint64_t end = block.key + block.keys;
  const std::span<const RowRange> ranges = std::span(seen_rows_).subspan(block.row, block.rows);
  if (std::ranges::all_of(ranges, [&](const RowRange& one) { return one.first <= block.key && end <= one.end; }))
    return body(block);
  ScoreBlock part = block;
  part.rows = 1;
  for (part.row = block.row; part.row < block.row + block.rows; ++part.row) {
    const RowRange& range = seen_rows_[part.row];
    part.key = std::max(block.key, range.first);
    if (part.key >= std::min(end, range.end)) continue;
    part.keys = std::min(end, range.end) - part.key;
    body(part);
  }
}

// Probabilities that count as zero in gradients. Their products would be subnormal numbers, which are slow, and no sum
// that has the largest probability, at least 1 / keys, has a digit for them.
constexpr float kNoProbability = 0x1p-80f;

// Scores become p, and d_p becomes scale d_s times the slope of the cap.
void Executor::turn_scores(const AttentionBackward& op, const ScoreBlock& block, float* scores, float* d_scores) {
  for (uint64_t i = 0; i < block.rows; ++i) {
    float *line = scores + i * kKeyBlock, *d_line = d_scores + i * kKeyBlock;
    const QuerySums& sums = query_sums(op, block.row + i, block.head);
    float capped[kKeyBlock];
    for (uint64_t j = 0; j < block.keys; ++j) {
      capped[j] = op.softcap > 0 && std::isfinite(line[j]) ? line[j] / op.softcap : 0.0f;
      line[j] -= sums.largest;
    }
    kernels_.exp(line, line, block.keys);
    kernels_.scale(line, 1.0f / sums.sum, line, block.keys);
    for (uint64_t j = 0; j < block.keys; ++j) {
      if (line[j] < kNoProbability) line[j] = 0;
      d_line[j] = line[j] * (d_line[j] - sums.mean) * op.scale * (1.0f - capped[j] * capped[j]);
    }
  }
}

auto Executor::query_sums(const AttentionBackward& op, uint64_t row, uint32_t head) -> QuerySums& {
  return reinterpret_cast<QuerySums*>(memory_.attention_sums())[row * type(op.q).heads + head];
}

// Finds the sums of softmax for some queries of a head, then their gradients.
void Executor::query_gradients(const AttentionBackward& op, ScoreBlock block, uint32_t thread) {
  const uint32_t head = block.head;
  block.kv_head = head / (type(op.q).heads / type(op.k).heads);
  uint64_t begin = block.sequence.end, end = 0;
  for (uint64_t row = block.row; row < block.row + block.rows; ++row) {
    begin = std::min(begin, seen_rows_[row].first);
    end = std::max(end, seen_rows_[row].end);
    query_sums(op, row, head) = {.largest = -__builtin_inff()};
  }
  begin -= (begin - block.sequence.first) % kKeyBlock;
  float* scores = memory_.thread(thread);
  float *d_scores = scores + kQueryBlock * kKeyBlock, *scratch = d_scores + kQueryBlock * kKeyBlock;
  const auto each_block = [&](const auto& body) {
    for (block.key = begin; block.key < end; block.key += kKeyBlock) {
      block.keys = std::min<uint64_t>(kKeyBlock, block.sequence.end - block.key);
      if (!any_sees(block)) continue;
      make_scores(op, block, scores, scratch);
      meet(block, {op.d_out, head}, {op.v, block.kv_head}, d_scores, scratch);
      body();
    }
  };
  each_block([&] { add_to_sums(op, block, scores, d_scores); });
  for (uint64_t row = block.row; row < block.row + block.rows; ++row) {
    QuerySums& sums = query_sums(op, row, head);
    sums.mean /= sums.sum;
    std::fill_n(result(op.d_q, row) + uint64_t{head} * type(op.q).width, type(op.q).width, 0.0f);
  }
  each_block([&] {
    turn_scores(op, block, scores, d_scores);
    each_seen(block, [&](const ScoreBlock& part) {
      kernels_.multiply_add({.left = d_scores + (part.row - block.row) * kKeyBlock + (part.key - block.key),
                             .left_row_stride = kKeyBlock,
                             .left_stride = 1,
                             .right = reals(op.k, part.key) + uint64_t{block.kv_head} * type(op.k).width,
                             .right_stride = columns(op.k),
                             .out = result(op.d_q, part.row) + uint64_t{head} * type(op.q).width,
                             .out_stride = columns(op.q),
                             .rows = part.rows,
                             .depth = part.keys,
                             .columns = type(op.q).width});
    });
  });
}

// Blocks of keys come in ascending order; sums are relative to the largest score so far.
void Executor::add_to_sums(const AttentionBackward& op, const ScoreBlock& block, const float* scores,
                           const float* d_scores) {
  for (uint64_t i = 0; i < block.rows; ++i) {
    QuerySums& sums = query_sums(op, block.row + i, block.head);
    const float *line = scores + i * kKeyBlock, *d_line = d_scores + i * kKeyBlock;
    const float largest = std::max(sums.largest, kernels_.largest(line, block.keys));
    if (largest == -__builtin_inff()) continue;
    float p[kKeyBlock];
    for (uint64_t j = 0; j < block.keys; ++j) p[j] = line[j] - largest;
    kernels_.exp(p, p, block.keys);
    float factor = sums.largest - largest;
    kernels_.exp(&factor, &factor, 1);
    sums.sum *= factor;
    sums.mean *= factor;
    const RowRange& range = seen_rows_[block.row + i];
    for (uint64_t j = 0; j < block.keys; ++j) {
      if (block.key + j < range.first || block.key + j >= range.end) continue;
      sums.sum += p[j];
      sums.mean += p[j] * d_line[j];
    }
    sums.largest = largest;
  }
}

// Gradients of some keys and values of a kv head, from all queries of the sequence that see them.
void Executor::key_gradients(const AttentionBackward& op, const ScoreBlock& keys, uint32_t thread) {
  const uint32_t group = type(op.q).heads / type(op.k).heads, kv_head = keys.kv_head;
  for (uint64_t row = keys.key; row < keys.key + keys.keys; ++row) {
    std::fill_n(result(op.d_k, row) + uint64_t{kv_head} * type(op.k).width, type(op.k).width, 0.0f);
    std::fill_n(result(op.d_v, row) + uint64_t{kv_head} * type(op.v).width, type(op.v).width, 0.0f);
  }
  float* scores = memory_.thread(thread);
  float *d_scores = scores + kQueryBlock * kKeyBlock, *scratch = d_scores + kQueryBlock * kKeyBlock;
  ScoreBlock block = keys;
  for (block.row = keys.row; block.row < keys.row + keys.rows; block.row += kQueryBlock) {
    block.rows = std::min<uint64_t>(kQueryBlock, keys.row + keys.rows - block.row);
    if (!any_sees(block)) continue;
    for (block.head = kv_head * group; block.head < (kv_head + 1) * group; ++block.head) {
      make_scores(op, block, scores, scratch);
      meet(block, {op.d_out, block.head}, {op.v, kv_head}, d_scores, scratch);
      turn_scores(op, block, scores, d_scores);
      add_columns(scores, block, {op.d_out, block.head}, {op.d_v, kv_head});
      add_columns(d_scores, block, {op.q, block.head}, {op.d_k, kv_head});
    }
  }
}

// to[key + j] += sum_i scores[i][j] of[row + i].
void Executor::add_columns(const float* scores, const ScoreBlock& block, const HeadOf& of, const HeadOf& to) {
  const uint64_t width = type(of.value).width;
  each_seen(block, [&](const ScoreBlock& part) {
    kernels_.multiply_add({.left = scores + (part.row - block.row) * kKeyBlock + (part.key - block.key),
                           .left_row_stride = 1,
                           .left_stride = kKeyBlock,
                           .right = reals(of.value, part.row) + of.head * width,
                           .right_stride = columns(of.value),
                           .out = result(to.value, part.key) + to.head * width,
                           .out_stride = columns(to.value),
                           .rows = part.keys,
                           .depth = part.rows,
                           .columns = width});
  });
}

void Executor::run(const ShortConvBackward& op) {
  constexpr uint64_t kPart = 64;  // channels
  const uint64_t channels = columns(op.x);
  find_sequences();
  const uint64_t parts = (channels + kPart - 1) / kPart;
  for (const RowRange& run : sequence_rows_)
    share_out(pool_, parts, kPart * (run.end - run.first) * 16, [&](const Share& share) {
      conv_gradients(op, run, share.first * kPart, std::min(share.last * kPart, channels));
    });
}

// d_x first holds the gradients of the sums. Those of later rows are needed only, so rows are finished from the first.
void Executor::conv_gradients(const ShortConvBackward& op, const RowRange& run, uint64_t first, uint64_t end) {
  const uint64_t taps = memory_.weight(op.weight).shape.columns;
  const float* weight = memory_.factors(op.weight);
  for (uint64_t row = run.first; row < run.end; ++row) {
    float* d_sum = result(op.d_x, row);
    for (uint64_t c = first; c < end; ++c) {
      float sum = 0;
      for (uint64_t j = 0; j < taps; ++j)
        if (row + j >= run.first + taps - 1) sum += weight[c * taps + j] * reals(op.x, row + j - (taps - 1))[c];
      d_sum[c] = sum;
    }
    kernels_.activation_backward[static_cast<int>(ActivationKind::silu)](d_sum + first, reals(op.d_out, row) + first,
                                                                         d_sum + first, end - first);
  }
  for (uint64_t row = run.first; row < run.end; ++row)
    for (uint64_t c = first; c < end; ++c) {
      float sum = 0;
      for (uint64_t j = 0; j < taps; ++j)
        if (row + taps - 1 - j < run.end) sum += weight[c * taps + j] * reals(op.d_x, row + taps - 1 - j)[c];
      result(op.d_x, row)[c] = sum;
    }
}

void Executor::run(const DeltaGatesBackward& op) {
  const float *rate = memory_.factors(op.rate), *bias = memory_.factors(op.bias);
  const auto sigmoid = kernels_.activation[static_cast<int>(ActivationKind::sigmoid)];
  const uint64_t heads = columns(op.a);
  each_row(op.a, [&](uint64_t row) {
    float *d_a = result(op.d_a, row), *d_b = result(op.d_b, row);
    kernels_.add(reals(op.a, row), bias, d_a, heads);
    sigmoid(d_a, d_a, heads);
    sigmoid(reals(op.b, row), d_b, heads);
    for (uint64_t h = 0; h < heads; ++h) {
      d_a[h] *= reals(op.d_decay, row)[h] * rate[h];
      d_b[h] = reals(op.d_beta, row)[h] * d_b[h] * (1.0f - d_b[h]);
    }
  });
}

void Executor::run(const DeltaRuleBackward& op) {
  find_sequences();
  const uint64_t key_heads = type(op.k).heads;
  const uint64_t table = uint64_t{type(op.k).width} * type(op.v).width;
  const uint64_t mean_rows = step_->rows() / std::max<uint64_t>(1, sequence_rows_.size()) + 1;
  share_out(pool_, sequence_rows_.size() * key_heads, mean_rows * table, [&](const Share& share) {
    for (uint64_t i = share.first; i < share.last; ++i) {
      const RowRange& run = sequence_rows_[i / key_heads];
      const auto key_head = static_cast<uint32_t>(i % key_heads);
      const uint64_t at = key_head * type(op.k).width;
      for (uint64_t row = run.first; row < run.end; ++row) {
        std::fill_n(result(op.d_q, row) + at, type(op.k).width, 0.0f);
        std::fill_n(result(op.d_k, row) + at, type(op.k).width, 0.0f);
      }
      for (uint32_t head = 0; head < type(op.v).heads; ++head)
        if (op.key_head(head, type(op.v).heads, type(op.k).heads) == key_head)
          delta_gradients(op, run, head, memory_.thread(share.thread));
    }
  });
}

// The states of every kDeltaRows rows are kept; those between are made again when the rows' gradients are.
void Executor::delta_gradients(const DeltaRuleBackward& op, const RowRange& run, uint32_t head, float* scratch) {
  const uint64_t table = uint64_t{type(op.k).width} * type(op.v).width;
  const uint64_t count = run.end - run.first, blocks = (count + kDeltaRows - 1) / kDeltaRows;
  float *kept = scratch, *d_state = kept + blocks * table, *states = d_state + table;
  float* errors = states + (kDeltaRows + 1) * table;
  std::fill_n(kept, table, 0.0f);
  std::fill_n(d_state, table, 0.0f);
  const auto block_rows = [&](uint64_t block) {
    const uint64_t first = run.first + block * kDeltaRows;
    return RowRange{.first = first, .end = std::min(first + kDeltaRows, run.end)};
  };
  const auto make_states = [&](uint64_t block) {
    std::copy_n(kept + block * table, table, states);
    const RowRange part = block_rows(block);
    for (uint64_t row = part.first; row < part.end; ++row) {
      const float* before = states + (row - part.first) * table;
      delta_step(op, row, head, before, states + (row - part.first + 1) * table,
                 errors + (row - part.first) * type(op.v).width);
    }
  };
  for (uint64_t block = 0; block + 1 < blocks; ++block) {
    make_states(block);
    std::copy_n(states + kDeltaRows * table, table, kept + (block + 1) * table);
  }
  for (uint64_t block = blocks; block-- > 0;) {
    make_states(block);
    const RowRange part = block_rows(block);
    for (uint64_t row = part.end; row-- > part.first;) {
      const float* before = states + (row - part.first) * table;
      delta_step_back(op, row, head,
                      {.before = before,
                       .after = before + table,
                       .error = errors + (row - part.first) * type(op.v).width,
                       .d_state = d_state});
    }
  }
}

// error = v - p, before beta.
void Executor::delta_step(const DeltaRuleBackward& op, uint64_t row, uint32_t head, const float* before, float* after,
                          float* error) {
  const uint64_t keys = type(op.k).width, values = type(op.v).width;
  const float* k = reals(op.k, row) + op.key_head(head, type(op.v).heads, type(op.k).heads) * keys;
  const float factor = std::exp(reals(op.decay, row)[head]), beta = reals(op.beta, row)[head];
  kernels_.scale(before, factor, after, keys * values);
  std::copy_n(reals(op.v, row) + head * values, values, error);
  for (uint64_t i = 0; i < keys; ++i) kernels_.accumulate(after + i * values, -k[i], error, values);
  for (uint64_t i = 0; i < keys; ++i) kernels_.accumulate(error, k[i] * beta, after + i * values, values);
}

void Executor::delta_step_back(const DeltaRuleBackward& op, uint64_t row, uint32_t head, const DeltaRow& at) {
  const uint64_t keys = type(op.k).width, values = type(op.v).width;
  const uint64_t key_at = op.key_head(head, type(op.v).heads, type(op.k).heads) * keys;
  const float *k = reals(op.k, row) + key_at, *q = reals(op.q, row) + key_at;
  const float* d_out = reals(op.d_out, row) + head * values;
  float *d_k = result(op.d_k, row) + key_at, *d_q = result(op.d_q, row) + key_at;
  float* d_v = result(op.d_v, row) + head * values;
  const float factor = std::exp(reals(op.decay, row)[head]), beta = reals(op.beta, row)[head];
  std::fill_n(d_v, values, 0.0f);
  for (uint64_t i = 0; i < keys; ++i) {
    float* d_state = at.d_state + i * values;
    kernels_.accumulate(d_out, op.scale * q[i], d_state, values);
    d_q[i] += op.scale * kernels_.dot(at.after + i * values, d_out, values);
    d_k[i] += beta * kernels_.dot(d_state, at.error, values);
    kernels_.accumulate(d_state, k[i], d_v, values);
  }
  result(op.d_beta, row)[head] = kernels_.dot(d_v, at.error, values);
  kernels_.scale(d_v, beta, d_v, values);
  float d_decay = 0;
  for (uint64_t i = 0; i < keys; ++i) {
    float* d_state = at.d_state + i * values;
    kernels_.accumulate(d_v, -k[i], d_state, values);
    d_k[i] -= factor * kernels_.dot(at.before + i * values, d_v, values);
    d_decay += factor * kernels_.dot(d_state, at.before + i * values, values);
  }
  result(op.d_decay, row)[head] = d_decay;
  kernels_.scale(at.d_state, factor, at.d_state, keys * values);
}

}  // namespace sluice::cpu

// Gradients of ops that treat each row by itself, on several threads.
#include <algorithm>
#include <cmath>

#include "device/cpu/executor.h"

namespace sluice::cpu {

void Executor::run(const NormBackward& op) {
  const uint64_t width = type(op.x).width;
  const float* weight = memory_.factors(op.weight);
  share_out(pool_, rows(op.x) * type(op.x).heads, 2 * width, [&](const Share& share) {
    for (uint64_t head = share.first; head < share.last; ++head)
      kernels_.norm_backward({.x = reals(op.x) + head * width,
                              .weight = weight,
                              .d_out = reals(op.d_out) + head * width,
                              .d_x = result(op.d_x) + head * width,
                              .eps = op.eps,
                              .size = op.mean ? static_cast<float>(width) : 1.0f,
                              .n = width});
  });
}

void Executor::run(const ActivationBackward& op) {
  constexpr uint64_t kCost = 8;  // two exponentials and divisions
  each_element(op.d_x, kCost, [&](uint64_t first, uint64_t n) {
    kernels_.activation_backward[static_cast<int>(op.kind)](reals(op.x) + first, reals(op.d_out) + first,
                                                            result(op.d_x) + first, n);
  });
}

void Executor::run(const RopeBackward& op) {
  const RopeDecl& table = program_.ropes[op.table];
  const uint64_t pairs = table.inverse_frequencies.size(), width = type(op.d_out).width;
  each_row(op.d_x, [&](uint64_t row) {
    const uint64_t angles = step_->rope_row(type(op.d_out).extent, row) * pairs;
    const float* cosines = step_->cosines(op.table).data() + angles;
    const float* sines = step_->sines(op.table).data() + angles;
    for (uint64_t head = 0; head < type(op.d_out).heads; ++head) {
      const float* d_out = reals(op.d_out, row) + head * width;
      float* d_x = result(op.d_x, row) + head * width;
      std::copy_n(d_out, width, d_x);
      for (uint64_t i = 0; i < pairs; ++i) {
        const auto [a, b, c, d] = rope_elements(table.pairing, op.first, i, pairs);
        d_x[a] = d_out[c] * cosines[i] + d_out[d] * sines[i];
        d_x[b] = d_out[d] * cosines[i] - d_out[c] * sines[i];
      }
    }
  });
}

void Executor::run(const Spread& op) {
  const uint64_t width = type(op.x).width;
  each_row(op.out, [&](uint64_t row) {
    for (uint64_t head = 0; head < op.heads; ++head) {
      const float share = op.shares == kNone ? 1.0f : reals(op.shares, row)[head];
      kernels_.scale(reals(op.x, row), op.factor * share, result(op.out, row) + head * width, width);
    }
  });
}

void Executor::run(const Dots& op) {
  const uint64_t width = type(op.a).width, heads = type(op.a).heads;
  share_out(pool_, rows(op.a), columns(op.a), [&](const Share& share) {
    for (uint64_t row = share.first; row < share.last; ++row)
      for (uint64_t head = 0; head < heads; ++head)
        result(op.out, row)[head] = op.factor * kernels_.dot(reals(op.a, row) + head * width, reals(op.b, row), width);
  });
}

void Executor::run(const SliceBackward& op) {
  const uint64_t width = type(op.d_out).width;
  each_row(op.d_x, [&](uint64_t row) {
    std::fill_n(result(op.d_x, row), columns(op.d_x), 0.0f);
    for (uint64_t head = 0; head < type(op.d_out).heads; ++head)
      std::copy_n(reals(op.d_out, row) + head * width, width,
                  result(op.d_x, row) + (op.first_head + head * op.stride) * width);
  });
}

void Executor::run(const GatherBackward& op) {
  const std::span<const int32_t> wanted(integers(op.index), rows(op.index));  // ascending
  each_row(op.d_x, [&](uint64_t row) {
    const auto found = std::ranges::lower_bound(wanted, static_cast<int32_t>(row));
    const bool is_wanted = found != wanted.end() && *found == static_cast<int32_t>(row);
    if (is_wanted)
      std::copy_n(reals(op.d_out, static_cast<uint64_t>(found - wanted.begin())), columns(op.d_x), result(op.d_x, row));
    else
      std::fill_n(result(op.d_x, row), columns(op.d_x), 0.0f);
  });
}

void Executor::run(const Join& op) {
  const uint64_t own = type(op.own).width, shared = type(op.shared).width;
  each_row(op.out, [&](uint64_t row) {
    for (uint64_t head = 0; head < type(op.own).heads; ++head) {
      float* out = result(op.out, row) + head * (own + shared);
      std::copy_n(reals(op.own, row) + head * own, own, out);
      std::copy_n(reals(op.shared, row), shared, out + own);
    }
  });
}

void Executor::run(const JoinBackward& op) {
  const uint64_t own = type(op.d_own).width, shared = type(op.d_shared).width;
  each_row(op.d_out, [&](uint64_t row) {
    float* sum = result(op.d_shared, row);
    std::fill_n(sum, shared, 0.0f);
    for (uint64_t head = 0; head < type(op.d_own).heads; ++head) {
      const float* d_out = reals(op.d_out, row) + head * (own + shared);
      std::copy_n(d_out, own, result(op.d_own, row) + head * own);
      kernels_.add(sum, d_out + own, sum, shared);
    }
  });
}

void Executor::run(const RouteBackward& op) {
  share_out(pool_, rows(op.logits), 2 * columns(op.logits), [&](const Share& share) {
    for (uint64_t row = share.first; row < share.last; ++row) route_row_backward(op, row);
  });
}

// The results first hold p of every expert, then g of the chosen ones stands in `scaled`.
void Executor::route_row_backward(const RouteBackward& op, uint64_t row) {
  const uint64_t experts = columns(op.logits), k = columns(op.index);
  const float* logits = reals(op.logits, row);
  const int32_t* chosen = integers(op.index, row);
  const float* scale = memory_.factors(op.per_expert_scale);
  const bool softmax = op.scoring == Scoring::softmax, all = softmax && !op.normalise;
  float* p = result(op.d_logits, row);
  const float largest = *std::max_element(logits, logits + experts);
  for (uint64_t e = 0; e < experts; ++e) p[e] = softmax ? logits[e] - largest : logits[e];
  softmax ? kernels_.exp(p, p, experts) : kernels_.activation[static_cast<int>(ActivationKind::sigmoid)](p, p, experts);
  const auto g = [&](uint64_t i) {
    return reals(op.d_weight, row)[i] * op.scale * (scale == nullptr ? 1.0f : scale[chosen[i]]);
  };
  float sum = 0, mixed = 0;
  for (uint64_t i = 0; i < k && op.normalise; ++i) sum += p[chosen[i]];
  for (uint64_t e = 0; e < experts && all; ++e) sum += p[e];
  if (!softmax) sum = op.normalise ? sum + 1e-20f : 1.0f;
  for (uint64_t i = 0; i < k; ++i) mixed += p[chosen[i]] / sum * g(i);
  const auto derivative = [&](float of, float its_g) {
    const float d_p = softmax || op.normalise ? (its_g - mixed) / sum : its_g;
    return d_p * of * (softmax ? 1.0f : 1.0f - of);
  };
  for (uint64_t e = 0; e < experts; ++e) {
    const int32_t* found = std::find(chosen, chosen + k, static_cast<int32_t>(e));
    if (found != chosen + k)
      p[e] = derivative(p[e], g(static_cast<uint64_t>(found - chosen)));
    else
      p[e] = all ? derivative(p[e], 0.0f) : 0.0f;
  }
}

}  // namespace sluice::cpu

// What the ops of training mean: one function an op, in the order of the catalogue.
#include <algorithm>
#include <cmath>

#include "device/reference/interpreter.h"

namespace sluice::reference {
namespace {

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

template <class Real>
Real slope(ActivationKind kind, Real x) {
  switch (kind) {
    case ActivationKind::gelu_tanh: {
      const auto root = static_cast<Real>(0.79788456080286535588);  // sqrt(2 / pi)
      const Real t = std::tanh(root * (x + Real(0.044715) * x * x * x));
      return Real(0.5) * (1 + t) + Real(0.5) * x * (1 - t * t) * root * (1 + 3 * Real(0.044715) * x * x);
    }
    case ActivationKind::silu: return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
    case ActivationKind::sigmoid: return sigmoid(x) * (1 - sigmoid(x));
    case ActivationKind::relu:
    case ActivationKind::gelu: break;  // check() refuses them
  }
  CHECK(false);
  return x;
}

}  // namespace

template <class Real>
void Interpreter<Real>::run(const LinearTransposed& op) {
  std::fill_n(reals(op.out, 0), rows(op.out) * tables_.columns(op.out), Real(0));
  for (uint64_t o = 0; o < weights_[op.weight].shape.rows; ++o) {
    const std::vector<float> row = weight_row(op.weight, o);
    for (uint64_t r = 0; r < rows(op.x); ++r)
      for (size_t i = 0; i < row.size(); ++i) reals(op.out, r)[i] += row[i] * reals(op.x, r)[o];
  }
}

template <class Real>
void Interpreter<Real>::run(const OuterSum& op) {
  const uint64_t m = tables_.columns(op.left), n = tables_.columns(op.right);
  for (uint64_t i = 0; i < m; ++i)
    for (uint64_t j = 0; j < n; ++j) {
      Real sum = 0;
      for (uint64_t r = 0; r < rows(op.left); ++r) sum += reals(op.left, r)[i] * reals(op.right, r)[j];
      reals(op.out, i)[j] = sum * Real(op.factor);
    }
}

// Choice `row` of all choices belongs to a row that chooses, and means an expert.
template <class Real>
auto Interpreter<Real>::choice(ValueId index, uint32_t experts, uint64_t row) -> Choice {
  const uint64_t k = index == kNone ? experts : type(index).width;
  const uint64_t expert = index == kNone ? row % k : static_cast<uint64_t>(integers(index, row / k)[row % k]);
  CHECK(expert < experts);
  return {.row = row / k, .expert = expert};
}

template <class Real>
void Interpreter<Real>::run(const ExpertLinear& op) {
  const WeightShape& shape = weights_[op.weight].shape;
  for (uint64_t c = 0; c < rows(op.out); ++c) {
    const Choice choice = this->choice(op.index, shape.experts, c);
    const Real* x = reals(op.x, op.by_choice ? c : choice.row);
    for (uint64_t o = 0; o < shape.rows; ++o) {
      const std::vector<float> row = weight_row(op.weight, o, choice.expert);
      Real sum = 0;
      for (size_t i = 0; i < row.size(); ++i) sum += row[i] * x[i];
      reals(op.out, c)[o] = sum;
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const ExpertLinearTransposed& op) {
  const WeightShape& shape = weights_[op.weight].shape;
  for (uint64_t c = 0; c < rows(op.out); ++c) {
    const Choice choice = this->choice(op.index, shape.experts, c);
    Real* out = reals(op.out, c);
    std::fill_n(out, shape.columns, Real(0));
    for (uint64_t o = 0; o < shape.rows; ++o) {
      const std::vector<float> row = weight_row(op.weight, o, choice.expert);
      for (size_t i = 0; i < row.size(); ++i) out[i] += row[i] * reals(op.x, c)[o];
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const ExpertOuterSum& op) {
  const uint64_t m = tables_.columns(op.left), n = tables_.columns(op.right);
  std::fill_n(reals(op.out, 0), rows(op.out) * n, Real(0));
  for (uint64_t c = 0; c < rows(op.left); ++c) {
    const Choice choice = this->choice(op.index, op.experts, c);
    const Real* right = reals(op.right, op.by_choice ? c : choice.row);
    for (uint64_t i = 0; i < m; ++i)
      for (uint64_t j = 0; j < n; ++j)
        reals(op.out, choice.expert * m + i)[j] += Real(op.factor) * reals(op.left, c)[i] * right[j];
  }
}

template <class Real>
void Interpreter<Real>::run(const CrossEntropy& op) {
  const WeightShape& shape = weights_[op.weight].shape;
  const uint64_t rank = op.inner == kNone ? 0 : tables_.columns(op.inner);
  if (op.d_inner != kNone) {
    std::fill_n(reals(op.d_inner, 0), rows(op.d_inner) * rank, Real(0));
    std::fill_n(reals(op.d_b, 0), rows(op.d_b) * rank, Real(0));
  }
  for (uint64_t r = 0; r < rows(op.x); ++r) {
    const Real* x = reals(op.x, r);
    std::vector<Real> y(shape.rows);
    for (uint64_t o = 0; o < shape.rows; ++o) {
      const std::vector<float> row = weight_row(op.weight, o);
      for (size_t i = 0; i < row.size(); ++i) y[o] += row[i] * x[i];
      Real more = 0;
      for (uint64_t k = 0; k < rank; ++k) more += weight_row(op.b, o)[k] * reals(op.inner, r)[k];
      y[o] += Real(op.factor) * more;
      if (op.softcap > 0) y[o] = Real(op.softcap) * std::tanh(y[o] / Real(op.softcap));
    }
    const Real largest = *std::max_element(y.begin(), y.end());
    Real sum = 0;
    for (const Real one : y) sum += std::exp(one - largest);
    const auto target = static_cast<size_t>(*integers(op.target, r));
    CHECK(target < y.size());
    *reals(op.loss, r) = std::log(sum) + largest - y[target];
    if (!op.has_gradients()) continue;
    std::fill_n(reals(op.d_x, r), shape.columns, Real(0));
    for (size_t o = 0; o < y.size(); ++o) {
      Real d = *reals(op.share, r) * (std::exp(y[o] - largest) / sum - (o == target ? 1 : 0));
      if (op.softcap > 0) d *= 1 - y[o] / Real(op.softcap) * (y[o] / Real(op.softcap));
      const std::vector<float> row = weight_row(op.weight, o);
      for (size_t i = 0; i < row.size(); ++i) reals(op.d_x, r)[i] += row[i] * d;
      for (uint64_t k = 0; k < rank; ++k) {
        reals(op.d_inner, r)[k] += Real(op.factor) * weight_row(op.b, o)[k] * d;
        reals(op.d_b, o)[k] += Real(op.factor) * d * reals(op.inner, r)[k];
      }
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const NormBackward& op) {
  const uint64_t width = type(op.x).width;
  const std::vector<float> weight = factors(op.weight, width);
  const Real size = op.mean ? Real(width) : Real(1);
  for (uint64_t head = 0; head < rows(op.x) * type(op.x).heads; ++head) {
    const Real *x = reals(op.x, 0) + head * width, *d_out = reals(op.d_out, 0) + head * width;
    Real* d_x = reals(op.d_x, 0) + head * width;
    Real squares = 0, both = 0;
    for (uint64_t i = 0; i < width; ++i) {
      squares += x[i] * x[i];
      both += d_out[i] * weight[i] * x[i];
    }
    const Real root = std::sqrt(squares / size + Real(op.eps));
    for (uint64_t i = 0; i < width; ++i)
      d_x[i] = d_out[i] * weight[i] / root - x[i] * both / (size * root * root * root);
  }
}

template <class Real>
void Interpreter<Real>::run(const ActivationBackward& op) {
  const Real* d_out = reals(op.d_out, 0);
  each_element(op.x, op.d_x, [&](Real x) { return slope(op.kind, x) * *d_out++; });
}

template <class Real>
void Interpreter<Real>::run(const RopeBackward& op) {
  const RopeDecl& table = program_.ropes[op.table];
  const uint64_t pairs = table.inverse_frequencies.size();
  const uint64_t width = type(op.d_out).width;
  for (uint64_t r = 0; r < rows(op.d_out); ++r) {
    const size_t angles = step_->rope_row(type(op.d_out).extent, r) * pairs;
    const float* cosines = step_->cosines(op.table).data() + angles;
    const float* sines = step_->sines(op.table).data() + angles;
    for (uint64_t h = 0; h < type(op.d_out).heads; ++h) {
      const Real* d_out = reals(op.d_out, r) + h * width;
      Real* d_x = reals(op.d_x, r) + h * width;
      std::copy(d_out, d_out + width, d_x);
      for (uint64_t i = 0; i < pairs; ++i) {
        const auto [a, b, c, d] = rope_elements(table.pairing, op.first, i, pairs);
        d_x[a] = d_out[c] * cosines[i] + d_out[d] * sines[i];
        d_x[b] = d_out[d] * cosines[i] - d_out[c] * sines[i];
      }
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const Broadcast& op) {
  const uint64_t width = type(op.x).width;
  for (uint64_t r = 0; r < rows(op.x); ++r)
    for (uint64_t h = 0; h < op.heads; ++h)
      for (uint64_t i = 0; i < width; ++i)
        reals(op.out, r)[h * width + i] =
            Real(op.factor) * (op.shares == kNone ? Real(1) : reals(op.shares, r)[h]) * reals(op.x, r)[i];
}

template <class Real>
void Interpreter<Real>::run(const Dots& op) {
  const uint64_t width = type(op.a).width;
  for (uint64_t r = 0; r < rows(op.a); ++r)
    for (uint64_t h = 0; h < type(op.a).heads; ++h) {
      Real sum = 0;
      for (uint64_t i = 0; i < width; ++i) sum += reals(op.a, r)[h * width + i] * reals(op.b, r)[i];
      reals(op.out, r)[h] = sum * Real(op.factor);
    }
}

template <class Real>
void Interpreter<Real>::run(const SliceBackward& op) {
  const uint64_t width = type(op.d_out).width;
  std::fill_n(reals(op.d_x, 0), rows(op.d_x) * tables_.columns(op.d_x), Real(0));
  for (uint64_t r = 0; r < rows(op.d_x); ++r)
    for (uint64_t h = 0; h < type(op.d_out).heads; ++h)
      std::copy_n(reals(op.d_out, r) + h * width, width, reals(op.d_x, r) + (op.first_head + h * op.stride) * width);
}

template <class Real>
void Interpreter<Real>::run(const GatherBackward& op) {
  const uint64_t columns = tables_.columns(op.d_x);
  std::fill_n(reals(op.d_x, 0), rows(op.d_x) * columns, Real(0));
  for (uint64_t w = 0; w < rows(op.d_out); ++w)
    std::copy_n(reals(op.d_out, w), columns, reals(op.d_x, static_cast<uint64_t>(*integers(op.index, w))));
}

template <class Real>
void Interpreter<Real>::run(const Join& op) {
  const uint64_t own = type(op.own).width, shared = type(op.shared).width;
  for (uint64_t r = 0; r < rows(op.out); ++r)
    for (uint64_t h = 0; h < type(op.own).heads; ++h) {
      Real* out = reals(op.out, r) + h * (own + shared);
      std::copy_n(reals(op.own, r) + h * own, own, out);
      std::copy_n(reals(op.shared, r), shared, out + own);
    }
}

template <class Real>
void Interpreter<Real>::run(const JoinBackward& op) {
  const uint64_t own = type(op.d_own).width, shared = type(op.d_shared).width;
  for (uint64_t r = 0; r < rows(op.d_out); ++r) {
    std::fill_n(reals(op.d_shared, r), shared, Real(0));
    for (uint64_t h = 0; h < type(op.d_own).heads; ++h) {
      const Real* d_out = reals(op.d_out, r) + h * (own + shared);
      std::copy_n(d_out, own, reals(op.d_own, r) + h * own);
      for (uint64_t i = 0; i < shared; ++i) reals(op.d_shared, r)[i] += d_out[own + i];
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const RouteBackward& op) {
  const size_t experts = type(op.logits).width, k = type(op.index).width;
  const std::vector<float> scale = factors(op.per_expert_scale, experts);
  const bool softmax = op.scoring == Scoring::softmax;
  for (uint64_t r = 0; r < rows(op.logits); ++r) {
    const Real* logits = reals(op.logits, r);
    std::vector<size_t> chosen;
    chosen.reserve(k);
    for (size_t i = 0; i < k; ++i) chosen.push_back(static_cast<size_t>(integers(op.index, r)[i]));
    std::vector<Real> p(experts), g(experts);
    const Real largest = *std::max_element(logits, logits + experts);
    for (size_t e = 0; e < experts; ++e) p[e] = softmax ? std::exp(logits[e] - largest) : sigmoid(logits[e]);
    for (size_t i = 0; i < k; ++i) g[chosen[i]] = reals(op.d_weight, r)[i] * Real(op.scale) * scale[chosen[i]];
    Real sum = 0, mixed = 0;
    if (op.normalise)
      for (const size_t e : chosen) sum += p[e];
    else
      for (const Real one : p) sum += one;
    if (!softmax) sum = op.normalise ? sum + Real(1e-20) : Real(1);
    for (const size_t e : chosen) mixed += p[e] / sum * g[e];
    Real* d_logits = reals(op.d_logits, r);
    for (size_t e = 0; e < experts; ++e) {
      const bool counts = (softmax && !op.normalise) || std::find(chosen.begin(), chosen.end(), e) != chosen.end();
      const Real d_p = softmax || op.normalise ? (g[e] - mixed) / sum : g[e];
      d_logits[e] = counts ? d_p * p[e] * (softmax ? Real(1) : 1 - p[e]) : Real(0);
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const AttentionBackward& op) {
  for (const ValueId id : {op.d_q, op.d_k, op.d_v}) std::fill_n(reals(id, 0), rows(id) * tables_.columns(id), Real(0));
  const Attention forward = op.forward();
  for (uint64_t r = 0; r < rows(op.q); ++r)
    for (uint32_t h = 0; h < type(op.q).heads; ++h) attend_backward(op, r, h, seen(forward, *step_, r));
}

// One query head of one row.
template <class Real>
void Interpreter<Real>::attend_backward(const AttentionBackward& op, uint64_t r, uint32_t h, const Seen& range) {
  const uint32_t key_width = type(op.q).width, value_width = type(op.v).width;
  const uint64_t kv_head = h / (type(op.q).heads / type(op.k).heads);
  const auto key = [&](ValueId id, uint32_t j) { return reals(id, range.row_of(j)) + kv_head * key_width; };
  const auto value = [&](ValueId id, uint32_t j) { return reals(id, range.row_of(j)) + kv_head * value_width; };
  const Real *q = reals(op.q, r) + uint64_t{h} * key_width, *d_out = reals(op.d_out, r) + uint64_t{h} * value_width;
  std::vector<Real> scores, shares, d_shares;
  for (uint32_t j = range.first; j <= range.last; ++j) {
    Real score = 0, d_share = 0;
    for (uint32_t i = 0; i < key_width; ++i) score += q[i] * key(op.k, j)[i];
    for (uint32_t i = 0; i < value_width; ++i) d_share += d_out[i] * value(op.v, j)[i];
    score *= Real(op.scale);
    if (op.softcap > 0) score = Real(op.softcap) * std::tanh(score / Real(op.softcap));
    scores.push_back(score);
    d_shares.push_back(d_share);
  }
  const Real largest = *std::max_element(scores.begin(), scores.end());
  Real sum = 0, mean = 0;
  for (const Real score : scores) {
    shares.push_back(std::exp(score - largest));
    sum += shares.back();
  }
  for (size_t j = 0; j < shares.size(); ++j) mean += (shares[j] /= sum) * d_shares[j];
  for (uint32_t j = range.first; j <= range.last; ++j) {
    const size_t at = j - range.first;
    Real d_score = shares[at] * (d_shares[at] - mean);
    const Real capped = op.softcap > 0 ? scores[at] / Real(op.softcap) : Real(0);
    d_score *= Real(op.scale) * (1 - capped * capped);
    for (uint32_t i = 0; i < value_width; ++i) value(op.d_v, j)[i] += shares[at] * d_out[i];
    for (uint32_t i = 0; i < key_width; ++i) {
      reals(op.d_q, r)[uint64_t{h} * key_width + i] += d_score * key(op.k, j)[i];
      key(op.d_k, j)[i] += d_score * q[i];
    }
  }
}

template <class Real>
auto Interpreter<Real>::sequences() const -> std::vector<SequenceRows> {
  std::vector<SequenceRows> found;
  const std::span<const int32_t> all = step_->row_sequences();
  for (uint64_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && all[end] == all[first]) ++end;
    found.push_back({.first = first, .end = end});
  }
  return found;
}

template <class Real>
void Interpreter<Real>::run(const ShortConvBackward& op) {
  const uint64_t taps = weights_[op.weight].shape.columns;
  for (const SequenceRows& run : sequences())
    for (uint64_t c = 0; c < type(op.x).columns(); ++c) {
      const std::vector<float> weight = weight_row(op.weight, c);
      std::vector<Real> d_sum(run.end - run.first);
      for (uint64_t t = 0; t < d_sum.size(); ++t) {
        Real sum = 0;
        for (uint64_t j = 0; j < taps; ++j)
          if (t + j >= taps - 1) sum += weight[j] * reals(op.x, run.first + t + j - (taps - 1))[c];
        d_sum[t] = reals(op.d_out, run.first + t)[c] * slope(ActivationKind::silu, sum);
      }
      for (uint64_t t = 0; t < d_sum.size(); ++t) {
        Real sum = 0;
        for (uint64_t j = 0; j < taps; ++j)
          if (t + taps - 1 - j < d_sum.size()) sum += weight[j] * d_sum[t + taps - 1 - j];
        reals(op.d_x, run.first + t)[c] = sum;
      }
    }
}

template <class Real>
void Interpreter<Real>::run(const DeltaGatesBackward& op) {
  const uint64_t heads = type(op.a).columns();
  const std::vector<float> rate = factors(op.rate, heads), bias = factors(op.bias, heads);
  for (uint64_t r = 0; r < rows(op.a); ++r)
    for (uint64_t h = 0; h < heads; ++h) {
      const Real beta = sigmoid(reals(op.b, r)[h]);
      reals(op.d_a, r)[h] = reals(op.d_decay, r)[h] * rate[h] * sigmoid(reals(op.a, r)[h] + bias[h]);
      reals(op.d_b, r)[h] = reals(op.d_beta, r)[h] * beta * (1 - beta);
    }
}

template <class Real>
void Interpreter<Real>::run(const DeltaRuleBackward& op) {
  for (const ValueId id : {op.d_q, op.d_k}) std::fill_n(reals(id, 0), rows(id) * tables_.columns(id), Real(0));
  for (const SequenceRows& run : sequences())
    for (uint32_t head = 0; head < type(op.v).heads; ++head) delta_head_backward(op, run, head);
}

template <class Real>
void Interpreter<Real>::delta_head_backward(const DeltaRuleBackward& op, const SequenceRows& run, uint32_t head) {
  const uint32_t keys = type(op.k).width, values = type(op.v).width;
  const uint64_t key_at = uint64_t{op.key_head(head, type(op.v).heads, type(op.k).heads)} * keys;
  const uint64_t value_at = uint64_t{head} * values;
  const uint64_t size = uint64_t{keys} * values;
  // States before each row.
  std::vector<Real> states((run.end - run.first + 1) * size), errors((run.end - run.first) * values);
  for (uint64_t r = run.first; r < run.end; ++r) {
    const Real *before = states.data() + (r - run.first) * size, *k = reals(op.k, r) + key_at;
    Real *after = states.data() + (r - run.first + 1) * size, *error = errors.data() + (r - run.first) * values;
    const Real factor = std::exp(reals(op.decay, r)[head]);
    for (uint32_t j = 0; j < values; ++j) {
      Real predicted = 0;
      for (uint32_t i = 0; i < keys; ++i) predicted += (after[i * values + j] = before[i * values + j] * factor) * k[i];
      error[j] = reals(op.v, r)[value_at + j] - predicted;  // before beta
      for (uint32_t i = 0; i < keys; ++i) after[i * values + j] += k[i] * error[j] * reals(op.beta, r)[head];
    }
  }
  std::vector<Real> d_state(size);
  for (uint64_t r = run.end; r-- > run.first;) {
    const Real *before = states.data() + (r - run.first) * size, *after = before + size;
    const Real *k = reals(op.k, r) + key_at, *q = reals(op.q, r) + key_at, *d_out = reals(op.d_out, r) + value_at;
    const Real* error = errors.data() + (r - run.first) * values;
    Real *d_k = reals(op.d_k, r) + key_at, *d_q = reals(op.d_q, r) + key_at, *d_v = reals(op.d_v, r) + value_at;
    const Real factor = std::exp(reals(op.decay, r)[head]), beta = reals(op.beta, r)[head], scale = Real(op.scale);
    Real d_beta = 0, d_decay = 0;
    for (uint32_t i = 0; i < keys; ++i)
      for (uint32_t j = 0; j < values; ++j) {
        d_state[i * values + j] += scale * q[i] * d_out[j];
        d_q[i] += scale * after[i * values + j] * d_out[j];
        d_k[i] += d_state[i * values + j] * error[j] * beta;
      }
    for (uint32_t j = 0; j < values; ++j) {
      Real d_error = 0;
      for (uint32_t i = 0; i < keys; ++i) d_error += d_state[i * values + j] * k[i];
      d_v[j] = beta * d_error;
      d_beta += d_error * error[j];
    }
    for (uint32_t i = 0; i < keys; ++i)
      for (uint32_t j = 0; j < values; ++j) {
        const Real decayed = factor * before[i * values + j];
        d_state[i * values + j] -= k[i] * d_v[j];
        d_k[i] -= decayed * d_v[j];
        d_decay += d_state[i * values + j] * decayed;
        d_state[i * values + j] *= factor;
      }
    reals(op.d_beta, r)[head] = d_beta;
    reals(op.d_decay, r)[head] = d_decay;
  }
}

#define SLUICE_RUN(O, Real) template void Interpreter<Real>::run(const O& op);
SLUICE_EACH_TRAINING_OP(SLUICE_RUN, float)
SLUICE_EACH_TRAINING_OP(SLUICE_RUN, double)
#undef SLUICE_RUN

}  // namespace sluice::reference

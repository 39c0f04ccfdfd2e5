#include "device/reference/interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/format.h"

namespace sluice::reference {
namespace {

template <class Real>
Real dot(const std::vector<float>& weights, const Real* x) {
  Real sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * x[i];
  return sum;
}

template <class Real>
Real cap(Real x, Real limit) {
  return limit * std::tanh(x / limit);
}

template <class Real>
Real activate(ActivationKind kind, Real x) {
  switch (kind) {
    case ActivationKind::gelu_tanh: {
      const auto root = static_cast<Real>(0.79788456080286535588);  // sqrt(2 / pi)
      return Real(0.5) * x * (1 + std::tanh(root * (x + Real(0.044715) * x * x * x)));
    }
    case ActivationKind::silu: return x / (1 + std::exp(-x));
    case ActivationKind::sigmoid: break;
  }
  return 1 / (1 + std::exp(-x));
}

}  // namespace

template <class Real>
uint64_t Interpreter<Real>::rows(ValueId id, const StepBuffer& step) const {
  const Extent extent = type(id).extent;
  return uint64_t{step.count(extent.symbol)} * extent.ratio;
}

template <class Real>
uint64_t Interpreter<Real>::step_row(ValueId id, uint64_t row, const StepBuffer& step) const {
  const Extent extent = type(id).extent;
  row /= extent.ratio;
  return extent.symbol == Symbol::rows ? row : static_cast<uint64_t>(step.wanted_rows()[row]);
}

template <class Real>
std::vector<float> Interpreter<Real>::weight_row(WeightId id, uint64_t row, uint64_t expert) const {
  const TensorSource& source = weights_[id];
  std::vector<float> decoded(source.shape.columns);
  decode_row(source.format, source.bytes + expert * source.expert_stride + row * source.row_stride, decoded.data(),
             decoded.size());
  return decoded;
}

template <class Real>
std::vector<float> Interpreter<Real>::factors(WeightId id, uint64_t count) const {
  return id == kNone ? std::vector<float>(count, 1.0f) : weight_row(id, 0);
}

template <class Real>
template <class F>
void Interpreter<Real>::each_element(ValueId x, ValueId out, F f) {
  const Real* from = reals(x, 0);
  std::transform(from, from + rows(x) * type(x).columns(), reals(out, 0), f);
}

template <class Real>
void Interpreter<Real>::run(const Embed& op) {
  for (uint64_t r = 0; r < rows(op.out); ++r) {
    const int32_t id = *integers(op.ids, r);
    CHECK(id >= 0 && static_cast<uint32_t>(id) < weights_[op.weight].shape.rows);
    const std::vector<float> row = weight_row(op.weight, static_cast<uint64_t>(id));
    for (size_t i = 0; i < row.size(); ++i) reals(op.out, r)[i] = row[i] * Real(op.scale);
  }
}

template <class Real>
void Interpreter<Real>::run(const Linear& op) {
  for (uint64_t o = 0; o < weights_[op.weight].shape.rows; ++o) {
    const std::vector<float> row = weight_row(op.weight, o);
    for (uint64_t r = 0; r < rows(op.x); ++r) reals(op.out, r)[o] = dot(row, reals(op.x, r));
  }
}

template <class Real>
void Interpreter<Real>::run(const RmsNorm& op) {
  const uint64_t width = type(op.x).width;
  const std::vector<float> weight = factors(op.weight, width);
  for (uint64_t head = 0; head < rows(op.x) * type(op.x).heads; ++head) {
    const Real* x = reals(op.x, 0) + head * width;
    Real* out = reals(op.out, 0) + head * width;
    Real squares = 0;
    for (uint64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const Real root = std::sqrt(squares / Real(width) + Real(op.eps));
    for (uint64_t i = 0; i < width; ++i) out[i] = x[i] / root * weight[i];
  }
}

template <class Real>
void Interpreter<Real>::run(const Add& op) {
  const Real* b = reals(op.b, 0);
  each_element(op.a, op.out, [&](Real a) { return a + *b++; });
}

template <class Real>
void Interpreter<Real>::run(const Mul& op) {
  const Real* b = reals(op.b, 0);
  each_element(op.a, op.out, [&](Real a) { return a * *b++; });
}

template <class Real>
void Interpreter<Real>::run(const Scale& op) {
  const uint64_t columns = type(op.x).columns();
  std::vector<float> weight = factors(op.weight, columns);
  weight.resize(columns, weight[0]);  // one element goes for every column
  for (uint64_t r = 0; r < rows(op.x); ++r)
    for (uint64_t c = 0; c < columns; ++c) reals(op.out, r)[c] = reals(op.x, r)[c] * Real(op.factor) * weight[c];
}

template <class Real>
void Interpreter<Real>::run(const Softcap& op) {
  each_element(op.x, op.out, [&](Real x) { return cap(x, Real(op.cap)); });
}

template <class Real>
void Interpreter<Real>::run(const Activation& op) {
  each_element(op.x, op.out, [&](Real x) { return activate(op.kind, x); });
}

template <class Real>
void Interpreter<Real>::run(const GatedActivation& op) {
  const Real* up = reals(op.up, 0);
  each_element(op.gate, op.out, [&](Real gate) { return activate(op.kind, gate) * *up++; });
}

template <class Real>
void Interpreter<Real>::run(const Rope& op) {
  const RopeDecl& table = program_.ropes[op.table];
  const uint64_t pairs = table.inverse_frequencies.size();
  const uint64_t width = type(op.x).width;
  for (uint64_t r = 0; r < rows(op.x); ++r) {
    const float* cosines = step_->cosines(op.table).data() + step_row(op.x, r) * pairs;
    const float* sines = step_->sines(op.table).data() + step_row(op.x, r) * pairs;
    for (uint64_t h = 0; h < type(op.x).heads; ++h) {
      const Real* x = reals(op.x, r) + h * width;
      Real* out = reals(op.out, r) + h * width;
      std::copy(x, x + width, out);
      for (uint64_t i = 0; i < pairs; ++i) {
        const uint64_t a = table.pairing == Pairing::halves ? i : 2 * i;
        const uint64_t b = table.pairing == Pairing::halves ? i + pairs : 2 * i + 1;
        out[a] = x[a] * cosines[i] - x[b] * sines[i];
        out[b] = x[b] * cosines[i] + x[a] * sines[i];
      }
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const Append& op) {
  for (uint64_t r = 0; r < rows(op.k); ++r) {
    const auto sequence = static_cast<uint32_t>(step_->row_sequences()[r]);
    const int32_t position = step_->positions()[r];
    std::copy_n(reals(op.k, r), tables_.columns(op.k), pages_.key(*step_, op.state.state, sequence, position, 0));
    std::copy_n(reals(op.v, r), tables_.columns(op.v), pages_.value(*step_, op.state.state, sequence, position, 0));
  }
}

template <class Real>
void Interpreter<Real>::run(const Attention& op) {
  for (uint64_t r = 0; r < rows(op.q); ++r) {
    const int32_t position = step_->positions()[step_row(op.q, r)];
    const int64_t first = op.window == 0 ? 0 : std::max<int64_t>(0, int64_t{position} - op.window + 1);
    for (uint32_t h = 0; h < type(op.q).heads; ++h) attend(op, r, h, static_cast<int32_t>(first), position);
  }
}

// One query head of one row, over positions first to last.
template <class Real>
void Interpreter<Real>::attend(const Attention& op, uint64_t r, uint32_t h, int32_t first, int32_t last) {
  const StateDecl& state = program_.states[op.state.state];
  const uint32_t kv_head = h / (type(op.q).heads / state.heads);
  const auto sequence = static_cast<uint32_t>(step_->row_sequences()[step_row(op.q, r)]);
  const Real* q = reals(op.q, r) + uint64_t{h} * state.key_width;
  Real* out = reals(op.out, r) + uint64_t{h} * state.value_width;

  std::vector<Real> shares;
  for (int32_t j = first; j <= last; ++j) {
    const Real* key = pages_.key(*step_, op.state.state, sequence, j, kv_head);
    Real score = 0;
    for (uint32_t i = 0; i < state.key_width; ++i) score += q[i] * key[i];
    score *= Real(op.scale);
    shares.push_back(op.softcap > 0 ? cap(score, Real(op.softcap)) : score);
  }
  const Real largest = *std::max_element(shares.begin(), shares.end());
  Real sum = 0;
  for (Real& share : shares) sum += share = std::exp(share - largest);

  std::fill_n(out, state.value_width, Real(0));
  for (int32_t j = first; j <= last; ++j) {
    const Real* value = pages_.value(*step_, op.state.state, sequence, j, kv_head);
    const Real share = shares[static_cast<size_t>(j - first)] / sum;
    for (uint32_t i = 0; i < state.value_width; ++i) out[i] += share * value[i];
  }
}

template <class Real>
void Interpreter<Real>::run(const Route& op) {
  const auto experts = static_cast<int32_t>(type(op.logits).width);
  const std::vector<float> scale = factors(op.per_expert_scale, type(op.logits).width);
  for (uint64_t r = 0; r < rows(op.logits); ++r) {
    const Real* logits = reals(op.logits, r);
    int32_t* chosen = tables_.integers(op.index, r);
    for (uint32_t i = 0; i < op.k; ++i) {
      int32_t best = -1;
      for (int32_t e = 0; e < experts; ++e) {
        const bool taken = std::find(chosen, chosen + i, e) != chosen + i;
        if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
      }
      chosen[i] = best;
    }
    const Real largest = logits[chosen[0]];
    const auto p = [&](int32_t e) { return std::exp(logits[e] - largest); };  // times one factor, which cancels
    Real sum = 0;
    if (op.normalise)
      for (uint32_t i = 0; i < op.k; ++i) sum += p(chosen[i]);
    else
      for (int32_t e = 0; e < experts; ++e) sum += p(e);
    for (uint32_t i = 0; i < op.k; ++i) reals(op.weight, r)[i] = p(chosen[i]) / sum * scale[size_t(chosen[i])];
  }
}

template <class Real>
auto Interpreter<Real>::rows_of_expert(const Experts& op, uint32_t expert) -> std::vector<Chosen> {
  std::vector<Chosen> chosen;
  for (uint64_t r = 0; r < rows(op.x); ++r)
    for (uint32_t i = 0; i < type(op.index).width; ++i)
      if (static_cast<uint32_t>(integers(op.index, r)[i]) == expert)
        chosen.push_back({.row = r, .weight = reals(op.weight, r)[i]});
  return chosen;
}

// out += weight * down(kind(gate x) * up x) for the rows that chose the expert.
template <class Real>
void Interpreter<Real>::add_expert(const Experts& op, uint32_t expert, const std::vector<Chosen>& chosen) {
  const uint64_t width = weights_[op.gate].shape.rows;
  const uint64_t hidden = weights_[op.down].shape.rows;
  std::vector<std::vector<Real>> inner(chosen.size(), std::vector<Real>(width));
  for (uint64_t i = 0; i < width; ++i) {
    const std::vector<float> gate = weight_row(op.gate, i, expert);
    const std::vector<float> up = weight_row(op.up, i, expert);
    for (size_t c = 0; c < chosen.size(); ++c) {
      const Real* x = reals(op.x, chosen[c].row);
      inner[c][i] = activate(op.kind, dot(gate, x)) * dot(up, x);
    }
  }
  for (uint64_t o = 0; o < hidden; ++o) {
    const std::vector<float> down = weight_row(op.down, o, expert);
    for (size_t c = 0; c < chosen.size(); ++c)
      reals(op.out, chosen[c].row)[o] += chosen[c].weight * dot(down, inner[c].data());
  }
}

template <class Real>
void Interpreter<Real>::run(const Experts& op) {
  std::fill_n(reals(op.out, 0), rows(op.out) * tables_.columns(op.out), Real(0));
  for (uint32_t expert = 0; expert < weights_[op.gate].shape.experts; ++expert)
    if (const std::vector<Chosen> chosen = rows_of_expert(op, expert); !chosen.empty()) add_expert(op, expert, chosen);
}

template <class Real>
void Interpreter<Real>::run(const Gather& op) {
  for (uint64_t w = 0; w < rows(op.out); ++w) {
    const int32_t row = *integers(op.index, w);
    CHECK(row >= 0 && static_cast<uint64_t>(row) < rows(op.x));
    std::copy_n(reals(op.x, static_cast<uint64_t>(row)), tables_.columns(op.x), reals(op.out, w));
  }
}

template <class Real>
void Interpreter<Real>::run(const Slice& op) {
  const uint64_t skipped = uint64_t{op.first_head} * type(op.x).width;
  for (uint64_t r = 0; r < rows(op.out); ++r)
    std::copy_n(reals(op.x, r) + skipped, tables_.columns(op.out), reals(op.out, r));
}

template <class Real>
void Interpreter<Real>::run(const Sample& op) {
  for (uint64_t w = 0; w < rows(op.out); ++w) {
    const SampleRow& row = step_->sample_rows()[w];
    const std::span<const Adjustment> adjustments = step_->adjustments().subspan(row.first_adjustment, row.adjustments);
    const std::span<const Real> logits(reals(op.logits, w), tables_.columns(op.logits));
    const auto position = static_cast<uint32_t>(step_->positions()[step_row(op.out, w)]);
    const SampleResult result = sample_row(logits, row, adjustments, position);
    std::memcpy(tables_.integers(op.out, w), &result, sizeof result);
  }
}

template class Interpreter<float>;
template class Interpreter<double>;

}  // namespace sluice::reference

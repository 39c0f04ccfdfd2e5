#include "device/reference/interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "device/reference/delta_rule.h"
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
    case ActivationKind::relu: return x < 0 ? 0 : x;  // a NaN stays one
    case ActivationKind::gelu: return Real(0.5) * x * (1 + std::erf(x * static_cast<Real>(0.70710678118654752440)));
    case ActivationKind::sigmoid: break;
  }
  return 1 / (1 + std::exp(-x));
}

}  // namespace

template <class Real>
uint64_t Interpreter<Real>::rows(ValueId id, const StepBuffer& step) const {
  return step.rows_of(type(id).extent);
}

template <class Real>
uint64_t Interpreter<Real>::step_row(ValueId id, uint64_t row, const StepBuffer& step) const {
  return step.step_row(type(id).extent, row);
}

template <class Real>
void Interpreter<Real>::run(const Embed& op) {
  const uint64_t width = type(op.out).width;
  for (uint64_t i = 0; i < rows(op.out) * type(op.out).heads; ++i) {
    const int32_t id = integers(op.ids, 0)[i];
    CHECK(id >= 0 && static_cast<uint32_t>(id) < weights_[op.weight].shape.rows);
    const std::vector<float> row = weight_row(op.weight, static_cast<uint64_t>(id));
    std::transform(row.begin(), row.end(), reals(op.out, 0) + i * width, [&](float x) { return x * Real(op.scale); });
  }
  if (op.adapter) add_adapter(op);
}

template <class Real>
void Interpreter<Real>::add_adapter(const Embed& op) {
  for (uint64_t r = 0; r < rows(op.out); ++r) {
    const int32_t slot = *integers(op.adapter.slots, r);
    const Real scale = *reals(op.adapter.scales, r);
    CHECK(slot >= 0 && static_cast<uint32_t>(slot) <= weights_[op.adapter.a].shape.experts);
    if (slot == 0 || scale == 0) continue;
    const auto matrix = static_cast<uint64_t>(slot - 1);
    const std::vector<float> line =
        weight_row(op.adapter.a, static_cast<uint64_t>(*integers(op.adapter_tokens, r)), matrix);
    const std::vector<Real> inner(line.begin(), line.end());
    for (uint64_t i = 0; i < weights_[op.adapter.b].shape.rows; ++i)
      reals(op.out, r)[i] += Real(op.scale) * scale * dot(weight_row(op.adapter.b, i, matrix), inner.data());
  }
}

template <class Real>
void Interpreter<Real>::run(const Linear& op) {
  for (uint64_t o = 0; o < weights_[op.weight].shape.rows; ++o) {
    const std::vector<float> row = weight_row(op.weight, o);
    for (uint64_t r = 0; r < rows(op.x); ++r) reals(op.out, r)[o] = dot(row, reals(op.x, r));
  }
  if (op.adapter) add_adapter(op.adapter, op.x, op.out);
}

template <class Real>
void Interpreter<Real>::add_adapter(const AdapterOperand& adapter, ValueId x, ValueId out) {
  for (uint64_t r = 0; r < rows(x); ++r) {
    const std::vector<Real> more = adapted(adapter, step_row(x, r), 0, 1, reals(x, r));
    for (size_t o = 0; o < more.size(); ++o) reals(out, r)[o] += more[o];
  }
}

template <class Real>
std::vector<Real> Interpreter<Real>::adapted(const AdapterOperand& adapter, uint64_t row, uint32_t expert,
                                             uint32_t experts, const Real* x) {
  if (!adapter) return {};
  const WeightShape a = weights_[adapter.a].shape, b = weights_[adapter.b].shape;
  const int32_t slot = *integers(adapter.slots, row);
  const Real scale = *reals(adapter.scales, row);
  CHECK(slot >= 0 && uint64_t{static_cast<uint32_t>(slot)} * experts <= a.experts);
  if (slot == 0 || scale == 0) return {};
  const uint64_t matrix = uint64_t{static_cast<uint32_t>(slot - 1)} * experts + expert;
  std::vector<Real> inner(a.rows), more(b.rows);
  for (uint64_t k = 0; k < a.rows; ++k) inner[k] = dot(weight_row(adapter.a, k, matrix), x);
  for (uint64_t o = 0; o < b.rows; ++o) more[o] = scale * dot(weight_row(adapter.b, o, matrix), inner.data());
  return more;
}

template <class Real>
std::vector<Real> Interpreter<Real>::adapted_transposed(const AdapterOperand& adapter, uint64_t row, uint32_t expert,
                                                        uint32_t experts, const Real* x) {
  if (!adapter) return {};
  const WeightShape a = weights_[adapter.a].shape, b = weights_[adapter.b].shape;
  const int32_t slot = *integers(adapter.slots, row);
  const Real scale = *reals(adapter.scales, row);
  if (slot == 0 || scale == 0) return {};
  const uint64_t matrix = uint64_t{static_cast<uint32_t>(slot - 1)} * experts + expert;
  std::vector<Real> inner(a.rows), more(a.columns);
  for (uint64_t i = 0; i < b.rows; ++i) {
    const std::vector<float> line = weight_row(adapter.b, i, matrix);
    for (uint64_t k = 0; k < a.rows; ++k) inner[k] += line[k] * x[i];
  }
  for (uint64_t k = 0; k < a.rows; ++k) {
    const std::vector<float> line = weight_row(adapter.a, k, matrix);
    for (uint64_t i = 0; i < a.columns; ++i) more[i] += line[i] * inner[k];
  }
  for (Real& one : more) one *= scale;
  return more;
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
void Interpreter<Real>::run(const L2Norm& op) {
  const uint64_t width = type(op.x).width;
  for (uint64_t head = 0; head < rows(op.x) * type(op.x).heads; ++head) {
    const Real* x = reals(op.x, 0) + head * width;
    Real* out = reals(op.out, 0) + head * width;
    Real squares = 0;
    for (uint64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const Real root = std::sqrt(squares + Real(op.eps));
    for (uint64_t i = 0; i < width; ++i) out[i] = x[i] / root;
  }
}

template <class Real>
void Interpreter<Real>::run(const LayerNorm& op) {
  const uint64_t width = type(op.x).width;
  const std::vector<float> weight = factors(op.weight, width);
  const std::vector<float> bias = op.bias == kNone ? std::vector<float>(width, 0.0f) : weight_row(op.bias, 0);
  for (uint64_t head = 0; head < rows(op.x) * type(op.x).heads; ++head) {
    const Real* x = reals(op.x, 0) + head * width;
    Real* out = reals(op.out, 0) + head * width;
    double sum = 0;  // an f32 mean of thousands of nearly equal numbers is too coarse for their differences from it
    Real squares = 0;
    for (uint64_t i = 0; i < width; ++i) sum += static_cast<double>(x[i]);
    const double mean = sum / static_cast<double>(width);
    const auto centred = [&](uint64_t i) { return static_cast<Real>(static_cast<double>(x[i]) - mean); };
    for (uint64_t i = 0; i < width; ++i) squares += centred(i) * centred(i);
    const Real root = std::sqrt(squares / Real(width) + Real(op.eps));
    for (uint64_t i = 0; i < width; ++i) out[i] = centred(i) / root * weight[i] + bias[i];
  }
}

template <class Real>
void Interpreter<Real>::run(const Add& op) {
  const Real* b = reals(op.b, 0);
  each_element(op.a, op.out, [&](Real a) { return a + *b++; });
}

template <class Real>
void Interpreter<Real>::run(const AddBias& op) {
  const std::vector<float> bias = weight_row(op.bias, 0);
  for (uint64_t r = 0; r < rows(op.x); ++r)
    for (uint64_t c = 0; c < bias.size(); ++c) reals(op.out, r)[c] = reals(op.x, r)[c] + bias[c];
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
void Interpreter<Real>::run(const Clamp& op) {
  const Real low = weight_row(op.low, 0)[0], high = weight_row(op.high, 0)[0];
  each_element(op.x, op.out, [&](Real x) { return x < low ? low : x > high ? high : x; });
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
  const uint64_t columns = type(op.up).columns(), gate_columns = type(op.gate).columns();
  for (uint64_t r = 0; r < rows(op.up); ++r)
    for (uint64_t c = 0; c < columns; ++c)
      reals(op.out, r)[c] = activate(op.kind, reals(op.gate, r)[gate_columns == 1 ? 0 : c]) * reals(op.up, r)[c];
}

template <class Real>
void Interpreter<Real>::run(const Rope& op) {
  const RopeDecl& table = program_.ropes[op.table];
  const uint64_t pairs = table.inverse_frequencies.size();
  const uint64_t width = type(op.x).width;
  for (uint64_t r = 0; r < rows(op.x); ++r) {
    const size_t angles = step_->rope_row(type(op.x).extent, r) * pairs;
    const float* cosines = step_->cosines(op.table).data() + angles;
    const float* sines = step_->sines(op.table).data() + angles;
    for (uint64_t h = 0; h < type(op.x).heads; ++h) {
      const Real* x = reals(op.x, r) + h * width;
      Real* out = reals(op.out, r) + h * width;
      std::copy(x, x + width, out);
      for (uint64_t i = 0; i < pairs; ++i) {
        const auto [a, b, c, d] = rope_elements(table.pairing, op.first, i, pairs);
        out[c] = x[a] * cosines[i] - x[b] * sines[i];
        out[d] = x[b] * cosines[i] + x[a] * sines[i];
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
  const uint64_t count = rows(op.q);
  std::vector<Seen> ranges;
  ranges.reserve(count);
  for (uint64_t r = 0; r < count; ++r) ranges.push_back(seen(op, *step_, r));
  for (uint64_t r = 0, end = 0; r < count; r = end) {
    while (end < count && meet_same_keys(op, r, end)) ++end;
    Seen all = ranges[r];
    for (uint64_t row = r; row < end; ++row) {
      all.first = std::min(all.first, ranges[row].first);
      all.last = std::max(all.last, ranges[row].last);
    }
    for (uint32_t h = 0; h < type(op.q).heads; ++h) {
      const HeadCache cache = head_cache(op, h, r, all);
      for (uint64_t row = r; row < end; ++row) attend(op, row, h, cache, ranges[row]);
    }
  }
}

// Rows of one sequence with the same adapter; of a tower's rows each by itself.
template <class Real>
bool Interpreter<Real>::meet_same_keys(const Attention& op, uint64_t a, uint64_t b) {
  if (a == b || !has_positions(type(op.q).extent)) return a == b;
  const uint64_t one = step_row(op.q, a), other = step_row(op.q, b);
  for (const AdapterOperand& adapter : {op.expand.key_adapter, op.expand.value_adapter}) {
    const bool same = !adapter || (*integers(adapter.slots, one) == *integers(adapter.slots, other) &&
                                   *reals(adapter.scales, one) == *reals(adapter.scales, other));
    if (!same) return false;
  }
  return step_->row_sequences()[one] == step_->row_sequences()[other];
}

// What head h of row `row` meets over that range.
template <class Real>
auto Interpreter<Real>::head_cache(const Attention& op, uint32_t h, uint64_t row, const Seen& range) -> HeadCache {
  const KeyShape shape = op.keys(program_);
  const uint32_t kv_head = h / (type(op.q).heads / shape.heads);
  HeadCache cache;
  cache.keys.resize(size_t{range.last} + 1);
  cache.values.resize(cache.keys.size());
  for (uint32_t j = range.first; j <= range.last; ++j) {
    if (op.has_own_rows()) {
      cache.keys[j] = reals(op.k, range.row_of(j)) + uint64_t{kv_head} * shape.key_width;
      cache.values[j] = reals(op.v, range.row_of(j)) + uint64_t{kv_head} * shape.value_width;
      continue;
    }
    const auto sequence = static_cast<uint32_t>(step_->row_sequences()[step_row(op.q, row)]);
    cache.keys[j] = pages_.key(*step_, op.state.state, sequence, static_cast<int32_t>(j), kv_head);
    cache.values[j] = pages_.value(*step_, op.state.state, sequence, static_cast<int32_t>(j), kv_head);
  }
  if (op.relative != kNone) add_relative(op, kv_head, row, range, cache);
  if (!op.expand) return cache;
  const HeadMatrices matrices = head_matrices(op.expand, h);
  const size_t key_width = type(op.q).width, value_width = type(op.out).width;
  cache.expanded.resize(cache.keys.size() * (key_width + value_width));
  Real* key = cache.expanded.data();
  for (size_t j = range.first; j < cache.keys.size(); ++j, key += key_width + value_width) {
    expand(matrices, op.expand.key_transposed, {cache.values[j], shape.value_width}, {cache.keys[j], shape.key_width},
           key, key + key_width);
    const uint64_t of_step = step_row(op.q, row);
    const uint32_t heads = type(op.q).heads;
    const Real* const latent = cache.values[j];
    const std::vector<Real> more_key = op.expand.key_transposed
                                           ? adapted_transposed(op.expand.key_adapter, of_step, h, heads, latent)
                                           : adapted(op.expand.key_adapter, of_step, h, heads, latent);
    const std::vector<Real> more_value = adapted(op.expand.value_adapter, of_step, h, heads, latent);
    for (size_t i = 0; i < more_key.size(); ++i) key[i] += more_key[i];
    for (size_t i = 0; i < more_value.size(); ++i) key[key_width + i] += more_value[i];
    cache.keys[j] = key;
    cache.values[j] = key + key_width;
  }
  return cache;
}

// To keys of the rows up to the query's, each by its distance.
template <class Real>
void Interpreter<Real>::add_relative(const Attention& op, uint32_t kv_head, uint64_t row, const Seen& range,
                                     HeadCache& cache) {
  const uint32_t width = op.keys(program_).key_width;
  cache.expanded.resize(cache.keys.size() * width);
  for (uint32_t j = range.first; j <= range.last; ++j) {
    if (range.row_of(j) > row || row - range.row_of(j) >= weights_[op.relative].shape.rows) continue;
    const std::vector<float> added = weight_row(op.relative, row - range.row_of(j));
    Real* const key = cache.expanded.data() + size_t{j} * width;
    for (uint32_t i = 0; i < width; ++i) key[i] = cache.keys[j][i] + added[uint64_t{kv_head} * width + i];
    cache.keys[j] = key;
  }
}

// One query head of one row.
template <class Real>
void Interpreter<Real>::attend(const Attention& op, uint64_t r, uint32_t h, const HeadCache& cache, const Seen& range) {
  const uint32_t key_width = type(op.q).width, value_width = type(op.out).width;
  const Real* q = reals(op.q, r) + uint64_t{h} * key_width;
  Real* out = reals(op.out, r) + uint64_t{h} * value_width;

  std::vector<Real> shares;
  for (uint32_t j = range.first; j <= range.last; ++j) {
    const Real* key = cache.keys[j];
    Real score = 0;
    for (uint32_t i = 0; i < key_width; ++i) score += q[i] * key[i];
    score *= Real(op.scale);
    shares.push_back(op.softcap > 0 ? cap(score, Real(op.softcap)) : score);
  }
  const Real largest = *std::max_element(shares.begin(), shares.end());
  Real sum = 0;
  for (Real& share : shares) sum += share = std::exp(share - largest);

  std::fill_n(out, value_width, Real(0));
  for (uint32_t j = range.first; j <= range.last; ++j) {
    const Real* value = cache.values[j];
    const Real share = shares[j - range.first] / sum;
    for (uint32_t i = 0; i < value_width; ++i) out[i] += share * value[i];
  }
}

template <class Real>
auto Interpreter<Real>::head_matrices(const Expansion& weights, uint32_t h) const -> HeadMatrices {
  HeadMatrices matrices;
  for (uint64_t i = 0; i < weights_[weights.key].shape.rows; ++i) matrices.key.push_back(weight_row(weights.key, i, h));
  for (uint64_t i = 0; i < weights_[weights.value].shape.rows; ++i)
    matrices.value.push_back(weight_row(weights.value, i, h));
  return matrices;
}

// key = [key matrix latent, shared], value = value matrix latent.
template <class Real>
void Interpreter<Real>::expand(const HeadMatrices& matrices, bool key_transposed, std::span<const Real> latent,
                               std::span<const Real> shared, Real* key, Real* value) {
  const size_t nope = key_transposed ? matrices.key[0].size() : matrices.key.size();
  for (size_t i = 0; i < nope; ++i) {
    key[i] = 0;
    for (size_t c = 0; c < latent.size(); ++c)
      key[i] += (key_transposed ? matrices.key[c][i] : matrices.key[i][c]) * latent[c];
  }
  std::copy(shared.begin(), shared.end(), key + nope);
  for (const std::vector<float>& row : matrices.value) *value++ = dot(row, latent.data());
}

template <class Real>
void Interpreter<Real>::run(const Expand& op) {
  for (uint32_t h = 0; h < type(op.key).heads; ++h) {
    const HeadMatrices matrices = head_matrices(op.weights, h);
    for (uint64_t r = 0; r < rows(op.latent); ++r)
      expand(matrices, op.weights.key_transposed, {reals(op.latent, r), tables_.columns(op.latent)},
             {reals(op.shared, r), tables_.columns(op.shared)}, reals(op.key, r) + uint64_t{h} * type(op.key).width,
             reals(op.value, r) + uint64_t{h} * type(op.value).width);
  }
}

// Indices of the `count` largest scores; a NaN never beats another, but may be chosen for want of one.
template <class Real>
std::vector<int32_t> Interpreter<Real>::best(std::span<const Real> scores, uint32_t count) {
  std::vector<int32_t> chosen;
  while (chosen.size() < count) {
    int32_t found = -1;
    for (int32_t i = 0; i < static_cast<int32_t>(scores.size()); ++i) {
      const bool taken = std::find(chosen.begin(), chosen.end(), i) != chosen.end();
      if (!taken && (found < 0 || scores[size_t(i)] > scores[size_t(found)])) found = i;
    }
    chosen.push_back(found);
  }
  return chosen;
}

// What experts are chosen by, before any group is left out.
template <class Real>
std::vector<Real> Interpreter<Real>::choice_scores(const Route& op, const Real* logits) const {
  const size_t experts = type(op.logits).width;
  std::vector<Real> scores(logits, logits + experts);
  if (op.scoring == Scoring::softmax) return scores;
  const std::vector<float> bias = op.bias == kNone ? std::vector<float>(experts) : weight_row(op.bias, 0);
  for (size_t e = 0; e < experts; ++e) scores[e] = activate(ActivationKind::sigmoid, scores[e]) + bias[e];
  return scores;
}

// Experts of the best groups, ascending.
template <class Real>
std::vector<int32_t> Interpreter<Real>::allowed_experts(const Route& op, const std::vector<Real>& scores) {
  const size_t group_size = scores.size() / op.groups;
  std::vector<Real> group_scores;
  for (uint32_t g = 0; g < op.groups && op.groups_used < op.groups; ++g) {
    const std::span<const Real> group(scores.data() + g * group_size, group_size);
    const std::vector<int32_t> two = best(group, 2);
    group_scores.push_back(group[size_t(two[0])] + group[size_t(two[1])]);
  }
  const std::vector<int32_t> used = best(group_scores, group_scores.empty() ? 0 : op.groups_used);
  std::vector<int32_t> allowed;
  for (size_t e = 0; e < scores.size(); ++e) {
    const auto group = static_cast<int32_t>(e / group_size);
    if (used.empty() || std::find(used.begin(), used.end(), group) != used.end())
      allowed.push_back(static_cast<int32_t>(e));
  }
  return allowed;
}

template <class Real>
auto Interpreter<Real>::runs(const StateRef& state) -> std::vector<Run> {
  std::vector<Run> found;
  const std::span<const int32_t> sequences = step_->row_sequences();
  for (uint64_t first = 0, end = 0; first < sequences.size(); first = end) {
    const auto sequence = static_cast<uint32_t>(sequences[first]);
    const std::span<const int32_t> entries = step_->pages(program_.states[state.state].group, sequence);
    Run run{.first = first, .before = pages_.table(state.state, entries[kSlotRead])};
    while (end < sequences.size() && sequences[end] == sequences[first]) {
      const uint64_t listed = kSlotEntries + end - first;
      ++end;
      const bool last = end == sequences.size() || sequences[end] != sequences[first];
      const int32_t kept = last ? entries[kSlotWritten] : listed < entries.size() ? entries[listed] : -1;
      CHECK(!last || kept >= 0);
      if (kept < 0) continue;
      run.end = end;
      run.after = pages_.table(state.state, kept);
      found.push_back(run);
      run = {.first = end, .before = run.after};
    }
  }
  return found;
}

template <class Real>
void Interpreter<Real>::run(const ShortConv& op) {
  const uint64_t channels = type(op.x).columns(), taps = weights_[op.weight].shape.columns;
  for (const Run& run : runs(op.state)) {
    // Row `t` of the run and its taps - 1 predecessors, t counting from the oldest that the state holds.
    const auto x = [&](uint64_t t, uint64_t c) {
      if (t >= taps - 1) return reals(op.x, run.first + t - (taps - 1))[c];
      return run.before == nullptr ? Real(0) : run.before[t * channels + c];
    };
    const uint64_t count = run.end - run.first;
    for (uint64_t c = 0; c < channels; ++c) {
      const std::vector<float> weight = weight_row(op.weight, c);
      for (uint64_t t = 0; t < count; ++t) {
        Real sum = 0;
        for (uint64_t j = 0; j < taps; ++j) sum += weight[j] * x(t + j, c);
        reals(op.out, run.first + t)[c] = activate(ActivationKind::silu, sum);
      }
      for (uint64_t j = 0; j + 1 < taps; ++j) run.after[j * channels + c] = x(count + j, c);
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const DeltaGates& op) {
  const uint64_t heads = type(op.a).columns();
  const std::vector<float> rate = factors(op.rate, heads), bias = factors(op.bias, heads);
  for (uint64_t r = 0; r < rows(op.a); ++r)
    for (uint64_t h = 0; h < heads; ++h) {
      const Real x = reals(op.a, r)[h] + bias[h];
      reals(op.decay, r)[h] = rate[h] * (x > 20 ? x : std::log1p(std::exp(x)));
      reals(op.beta, r)[h] = activate(ActivationKind::sigmoid, reals(op.b, r)[h]);
    }
}

template <class Real>
void Interpreter<Real>::run(const DeltaRule& op) {
  const StateDecl& decl = program_.states[op.state.state];
  const uint64_t table = uint64_t{decl.key_width} * decl.value_width;  // of a head
  for (const Run& run : runs(op.state)) {
    for (uint64_t i = 0; i < decl.slot_elements(); ++i) run.after[i] = run.before == nullptr ? Real(0) : run.before[i];
    for (uint32_t head = 0; head < decl.heads; ++head) delta_head(op, run, head, run.after + head * table);
  }
}

template <class Real>
void Interpreter<Real>::delta_head(const DeltaRule& op, const Run& run, uint32_t head, Real* state) {
  const uint32_t key_head = op.key_head(head, type(op.v).heads, type(op.k).heads);
  // Columns [first, first + width) of the run's rows.
  const auto part = [&](ValueId id, uint64_t first, uint64_t width) {
    std::vector<Real> copy;
    for (uint64_t r = run.first; r < run.end; ++r)
      copy.insert(copy.end(), reals(id, r) + first, reals(id, r) + first + width);
    return copy;
  };
  const uint32_t keys = type(op.k).width, values = type(op.v).width;
  const std::vector<Real> q = part(op.q, uint64_t{key_head} * keys, keys),
                          k = part(op.k, uint64_t{key_head} * keys, keys);
  const std::vector<Real> v = part(op.v, uint64_t{head} * values, values);
  const std::vector<Real> decay = part(op.decay, head, 1), beta = part(op.beta, head, 1);
  std::vector<Real> out(v.size());
  delta_recurrent<Real>({.rows = run.end - run.first,
                         .key_width = keys,
                         .value_width = values,
                         .q = q.data(),
                         .k = k.data(),
                         .v = v.data(),
                         .decay = decay.data(),
                         .beta = beta.data(),
                         .scale = Real(op.scale),
                         .state = state,
                         .out = out.data()});
  for (uint64_t r = run.first; r < run.end; ++r)
    std::copy_n(out.data() + (r - run.first) * values, values, reals(op.out, r) + uint64_t{head} * values);
}

template <class Real>
void Interpreter<Real>::run(const Route& op) {
  const size_t experts = type(op.logits).width;
  const std::vector<float> scale = factors(op.per_expert_scale, experts);
  for (uint64_t r = 0; r < rows(op.logits); ++r) {
    const Real* logits = reals(op.logits, r);
    const std::vector<Real> scores = choice_scores(op, logits);
    const std::vector<int32_t> allowed = allowed_experts(op, scores);
    std::vector<Real> allowed_scores;
    allowed_scores.reserve(allowed.size());
    for (const int32_t e : allowed) allowed_scores.push_back(scores[size_t(e)]);
    int32_t* chosen = tables_.integers(op.index, r);
    for (const int32_t i : best(allowed_scores, op.k)) *chosen++ = allowed[size_t(i)];
    chosen -= op.k;

    const bool sigmoid = op.scoring == Scoring::sigmoid;
    const Real largest = logits[chosen[0]];
    const auto p = [&](int32_t e) {  // of softmax: times one factor, which cancels
      return sigmoid ? activate(ActivationKind::sigmoid, logits[e]) : std::exp(logits[e] - largest);
    };
    Real sum = 0;
    if (op.normalise)
      for (uint32_t i = 0; i < op.k; ++i) sum += p(chosen[i]);
    else
      for (size_t e = 0; e < experts && !sigmoid; ++e) sum += p(static_cast<int32_t>(e));
    if (sigmoid) sum = op.normalise ? sum + Real(1e-20) : Real(1);
    for (uint32_t i = 0; i < op.k; ++i)
      reals(op.weight, r)[i] = p(chosen[i]) / sum * Real(op.scale) * scale[size_t(chosen[i])];
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
  const uint32_t experts = weights_[op.gate].shape.experts;
  const auto all_adapted = [&](const AdapterOperand& adapter, const auto& x) {
    std::vector<std::vector<Real>> more(chosen.size());
    for (size_t c = 0; c < chosen.size(); ++c)
      more[c] = adapted(adapter, step_row(op.x, chosen[c].row), expert, experts, x(c));
    return more;
  };
  const auto outer = [&](size_t c) -> const Real* { return reals(op.x, chosen[c].row); };
  const auto gates = all_adapted(op.adapters.gate(), outer), ups = all_adapted(op.adapters.up(), outer);
  std::vector<std::vector<Real>> inner(chosen.size(), std::vector<Real>(width));
  for (uint64_t i = 0; i < width; ++i) {
    const std::vector<float> gate = weight_row(op.gate, i, expert);
    const std::vector<float> up = weight_row(op.up, i, expert);
    for (size_t c = 0; c < chosen.size(); ++c) {
      const Real* x = reals(op.x, chosen[c].row);
      const Real more_gate = gates[c].empty() ? Real(0) : gates[c][i], more_up = ups[c].empty() ? Real(0) : ups[c][i];
      inner[c][i] = activate(op.kind, dot(gate, x) + more_gate) * (dot(up, x) + more_up);
    }
  }
  const auto downs = all_adapted(op.adapters.down(), [&](size_t c) -> const Real* { return inner[c].data(); });
  for (uint64_t o = 0; o < hidden; ++o) {
    const std::vector<float> down = weight_row(op.down, o, expert);
    for (size_t c = 0; c < chosen.size(); ++c) {
      const Real more = downs[c].empty() ? Real(0) : downs[c][o];
      reals(op.out, chosen[c].row)[o] += chosen[c].weight * (dot(down, inner[c].data()) + more);
    }
  }
}

template <class Real>
void Interpreter<Real>::run(const Experts& op) {
  std::fill_n(reals(op.out, 0), rows(op.out) * tables_.columns(op.out), Real(0));
  for (uint32_t expert = 0; expert < weights_[op.gate].shape.experts; ++expert)
    if (const std::vector<Chosen> chosen = rows_of_expert(op, expert); !chosen.empty()) add_expert(op, expert, chosen);
}

template <class Real>
void Interpreter<Real>::run(const ClusteredLogits& op) {
  const uint64_t clusters = tables_.columns(op.scores), tokens = tables_.columns(op.out);
  for (uint64_t r = 0; r < rows(op.out); ++r) {
    const Real* const scores = reals(op.scores, r);
    std::vector<uint64_t> best(clusters);
    std::iota(best.begin(), best.end(), uint64_t{0});
    std::ranges::sort(
        best, [&](uint64_t a, uint64_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
    std::vector<bool> is_chosen(tokens);
    Real least = std::numeric_limits<Real>::infinity();
    for (uint32_t j = 0; j < op.k; ++j) {
      for (const float number : weight_row(op.order, best[j])) {
        const auto token = static_cast<uint64_t>(std::lround(number));
        CHECK(token < tokens);
        is_chosen[token] = true;
        least = std::min(least, reals(op.out, r)[token] = dot(weight_row(op.table, token), reals(op.x, r)));
      }
    }
    for (uint64_t token = 0; token < tokens; ++token)
      if (!is_chosen[token]) reals(op.out, r)[token] = least - 1;
  }
}

template <class Real>
void Interpreter<Real>::run(const Gather& op) {
  const uint64_t columns = tables_.columns(op.x);
  for (uint64_t i = 0; i < rows(op.index) * tables_.columns(op.index); ++i) {
    const int32_t row = integers(op.index, 0)[i];
    CHECK(row >= -1 && row < static_cast<int64_t>(rows(op.x)));
    if (row < 0)
      std::fill_n(reals(op.out, 0) + i * columns, columns, Real(0));
    else
      std::copy_n(reals(op.x, static_cast<uint64_t>(row)), columns, reals(op.out, 0) + i * columns);
  }
}

template <class Real>
void Interpreter<Real>::run(const Scatter& op) {
  for (uint64_t r = 0; r < rows(op.out); ++r) {
    const int32_t row = *integers(op.index, r);
    CHECK(row >= -1 && row < static_cast<int64_t>(rows(op.rows)));
    const Real* from = row < 0 ? reals(op.x, r) : reals(op.rows, static_cast<uint64_t>(row));
    std::copy_n(from, tables_.columns(op.out), reals(op.out, r));
  }
}

template <class Real>
void Interpreter<Real>::run(const Pool& op) {
  const uint64_t width = type(op.x).width, heads = type(op.x).heads;
  for (uint64_t r = 0; r < rows(op.out); ++r)
    for (uint64_t i = 0; i < width; ++i) {
      Real sum = 0;
      for (uint64_t h = 0; h < heads; ++h)
        sum += reals(op.x, r)[h * width + i] * (op.shares == kNone ? Real(1) : reals(op.shares, r)[h]);
      reals(op.out, r)[i] = sum * Real(op.factor);
    }
}

template <class Real>
void Interpreter<Real>::run(const Slice& op) {
  const uint64_t width = type(op.x).width;
  for (uint64_t r = 0; r < rows(op.out); ++r)
    for (uint64_t h = 0; h < op.heads; ++h)
      std::copy_n(reals(op.x, r) + (op.first_head + h * op.stride) * width, width, reals(op.out, r) + h * width);
}

template <class Real>
void Interpreter<Real>::run(const Sample& op) {
  for (uint64_t w = 0; w < rows(op.out); ++w) {
    const SampleRow& row = step_->sample_rows()[w];
    const std::span<const Adjustment> adjustments = step_->adjustments().subspan(row.first_adjustment, row.adjustments);
    const std::span<const Real> logits(reals(op.logits, w), tables_.columns(op.logits));
    const auto position = static_cast<uint32_t>(step_->positions()[step_row(op.out, w)]);
    const SampleResult result = sample_row(logits, row, adjustments, step_->mask(row.mask), position);
    std::memcpy(tables_.integers(op.out, w), &result, sizeof result);
  }
}

#define SLUICE_RUN(O, Real) template void Interpreter<Real>::run(const O& op);
#define SLUICE_INTERPRETER(Real)                                                                               \
  SLUICE_EACH_ANSWER_OP(SLUICE_RUN, Real)                                                                      \
  template uint64_t Interpreter<Real>::rows(ValueId id, const StepBuffer& step) const;                         \
  template std::vector<float> Interpreter<Real>::weight_row(WeightId id, uint64_t row, uint64_t expert) const; \
  template uint64_t Interpreter<Real>::step_row(ValueId id, uint64_t row, const StepBuffer& step) const;
SLUICE_INTERPRETER(float)
SLUICE_INTERPRETER(double)
#undef SLUICE_INTERPRETER
#undef SLUICE_RUN

}  // namespace sluice::reference

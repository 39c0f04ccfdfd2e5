#include "device/cpu/executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "device/embedding_adapter.h"

namespace sluice::cpu {
namespace {

// The cost of an exponential and a division, in element operations.
constexpr uint64_t kActivationCost = 4;

// The k largest of `count` scores whose index is allowed, in descending order; equal scores in ascending index. A NaN
// never beats another score, but is chosen if nothing else is left.
template <class Allowed>
void choose(const float* scores, int32_t count, uint32_t k, int32_t* chosen, const Allowed& allowed) {
  for (uint32_t i = 0; i < k; ++i) {
    int32_t best = -1;
    for (int32_t e = 0; e < count; ++e)
      if ((best < 0 || scores[e] > scores[best]) && allowed(e) && std::find(chosen, chosen + i, e) == chosen + i)
        best = e;
    chosen[i] = best;
  }
}

// Chooses among experts of the best groups. `scratch`: two numbers for each group.
void choose_in_groups(const Route& op, const float* scores, int32_t experts, float* scratch, int32_t* chosen) {
  const auto groups = static_cast<int32_t>(op.groups);
  const int32_t size = experts / groups;
  float *group_scores = scratch, *used = scratch + groups;  // used: 1, or 0
  for (int32_t g = 0; g < groups; ++g) {
    int32_t two[2];
    choose(scores + g * size, size, 2, two, [](int32_t) { return true; });
    group_scores[g] = scores[g * size + two[0]] + scores[g * size + two[1]];
    used[g] = 0.0f;
  }
  for (uint32_t i = 0; i < op.groups_used; ++i) {
    int32_t best = -1;
    choose(group_scores, groups, 1, &best, [&](int32_t g) { return used[g] == 0.0f; });
    used[best] = 1.0f;
  }
  choose(scores, experts, op.k, chosen, [&](int32_t e) { return used[e / size] != 0.0f; });
}

}  // namespace

void Executor::begin(const StepBuffer& step) {
  step_ = &step;
  chosen_for_ = kNone;
  memory_.begin(step);
}

uint64_t Executor::rows(ValueId id) const { return step_->rows_of(type(id).extent); }

uint64_t Executor::step_row(ValueId id, uint64_t row) const { return step_->step_row(type(id).extent, row); }

void Executor::run(const Dispatch& dispatch) {
  if (dispatch.block == nullptr) return run(dispatch.first_op);
  if (dispatch.block->kind == BlockKind::qkv) return run_qkv(*dispatch.block);
  run_gated_mlp(*dispatch.block);
}

void Executor::run_qkv(const Block& block) {
  std::vector<const Linear*> linears;
  for (uint32_t op = block.first_op; op < block.end_op; ++op) linears.push_back(&std::get<Linear>(program_.ops[op]));
  list_linears(linears);
  products_.multiply(product_list_);
}

void Executor::list_linears(std::span<const Linear* const> linears) {
  std::vector<WeightId> weights;
  for (const Linear* linear : linears) weights.push_back(linear->weight);
  const ValueId x = linears.front()->x;
  const Activations activations = products_.prepare(reals(x), rows(x), weights);
  product_list_.clear();
  for (const Linear* linear : linears)
    product_list_.push_back(products_.product(activations, linear->weight, result(linear->out)));
  list_adapters(linears, product_list_);
}

void Executor::run_gated_mlp(const Block& block) {
  const auto& gate = std::get<Linear>(program_.ops[block.first_op]);
  const auto& up = std::get<Linear>(program_.ops[block.first_op + 1]);
  const auto& gated = std::get<GatedActivation>(program_.ops[block.first_op + 2]);
  list_linears(std::array{&gate, &up});
  const GatedProduct product{.gate = product_list_[0], .up = product_list_[1], .out = result(gated.out)};
  products_.multiply(std::span(&product, 1), gated.kind);
  run(block.first_op + 3);
}

void Executor::run(const Embed& op) {
  // A decode step's few rows are likely to come again.
  constexpr uint64_t kFewEmbedded = 8;
  const TensorSource& table = memory_.weight(op.weight);
  const bool are_few = rows(op.out) <= kFewEmbedded;
  each_row(op.out, [&](uint64_t row) {
    for (uint32_t head = 0; head < type(op.out).heads; ++head) {
      const int32_t id = integers(op.ids, row)[head];
      CHECK(id >= 0 && static_cast<uint32_t>(id) < table.shape.rows);
      float* out = result(op.out, row) + uint64_t{head} * table.shape.columns;
      if (are_few)
        memory_.decode(op.weight, 0, static_cast<uint32_t>(id), out, op.scale);
      else
        memory_.decode_once(op.weight, static_cast<uint32_t>(id), out, op.scale);
    }
    if (op.adapter) add_adapter(op, row);
  });
}

void Executor::add_adapter(const Embed& op, uint64_t row) {
  const int32_t slot = *integers(op.adapter.slots, row), token = *integers(op.adapter_tokens, row);
  const float scale = *reals(op.adapter.scales, row);
  CHECK(slot >= 0 && token >= 0);
  if (slot == 0 || scale == 0.0f) return;
  const TensorSource &a = memory_.weight(op.adapter.a), &b = memory_.weight(op.adapter.b);
  add_embedding_adapter(a, b, static_cast<uint32_t>(slot - 1), static_cast<uint32_t>(token), op.scale * scale,
                        {result(op.out, row), b.shape.rows});
}

void Executor::run(const Linear& op) {
  list_linears(std::array{&op});
  products_.multiply(product_list_);
}

void Executor::run(const RmsNorm& op) {
  const uint64_t width = type(op.x).width;
  const float* weight = memory_.factors(op.weight);
  share_out(pool_, rows(op.x) * type(op.x).heads, width, [&](const Share& share) {
    for (uint64_t head = share.first; head < share.last; ++head)
      kernels_.rms_norm(reals(op.x) + head * width, weight, op.eps, result(op.out) + head * width, width);
  });
}

void Executor::run(const L2Norm& op) {
  const uint64_t width = type(op.x).width;
  share_out(pool_, rows(op.x) * type(op.x).heads, width, [&](const Share& share) {
    for (uint64_t head = share.first; head < share.last; ++head)
      kernels_.l2_norm(reals(op.x) + head * width, op.eps, result(op.out) + head * width, width);
  });
}

void Executor::run(const LayerNorm& op) {
  const uint64_t width = type(op.x).width;
  const float *weight = memory_.factors(op.weight), *bias = memory_.factors(op.bias);
  share_out(pool_, rows(op.x) * type(op.x).heads, 2 * width, [&](const Share& share) {
    for (uint64_t head = share.first; head < share.last; ++head)
      kernels_.layer_norm({.x = reals(op.x) + head * width,
                           .weight = weight,
                           .bias = bias,
                           .out = result(op.out) + head * width,
                           .eps = op.eps,
                           .n = width});
  });
}

void Executor::run(const Add& op) {
  each_element(op.out, 1, [&](uint64_t first, uint64_t n) {
    kernels_.add(reals(op.a) + first, reals(op.b) + first, result(op.out) + first, n);
  });
}

void Executor::run(const AddBias& op) {
  const float* bias = memory_.factors(op.bias);
  each_row(op.out, [&](uint64_t row) { kernels_.add(reals(op.x, row), bias, result(op.out, row), columns(op.out)); });
}

void Executor::run(const Mul& op) {
  each_element(op.out, 1, [&](uint64_t first, uint64_t n) {
    kernels_.mul(reals(op.a) + first, reals(op.b) + first, result(op.out) + first, n);
  });
}

void Executor::run(const Scale& op) {
  const float* weight = memory_.factors(op.weight);
  const bool one = weight != nullptr && memory_.weight(op.weight).shape.columns == 1;
  each_row(op.out, [&](uint64_t row) {
    float* out = result(op.out, row);
    kernels_.scale(reals(op.x, row), op.factor, out, columns(op.out));
    if (one) kernels_.scale(out, *weight, out, columns(op.out));
    if (weight != nullptr && !one) kernels_.mul(out, weight, out, columns(op.out));
  });
}

void Executor::run(const Clamp& op) {
  const float low = *memory_.factors(op.low), high = *memory_.factors(op.high);
  each_element(op.out, 1, [&](uint64_t first, uint64_t n) {
    kernels_.clamp(reals(op.x) + first, low, high, result(op.out) + first, n);
  });
}

void Executor::run(const Softcap& op) {
  each_element(op.out, kActivationCost, [&](uint64_t first, uint64_t n) {
    kernels_.softcap(reals(op.x) + first, op.cap, result(op.out) + first, n);
  });
}

void Executor::run(const Activation& op) {
  each_element(op.out, kActivationCost, [&](uint64_t first, uint64_t n) {
    kernels_.activation[static_cast<int>(op.kind)](reals(op.x) + first, result(op.out) + first, n);
  });
}

void Executor::run(const GatedActivation& op) {
  if (columns(op.gate) != columns(op.up)) {
    each_row(op.out, [&](uint64_t row) {
      float factor = 0;
      kernels_.activation[static_cast<int>(op.kind)](reals(op.gate, row), &factor, 1);
      kernels_.scale(reals(op.up, row), factor, result(op.out, row), columns(op.out));
    });
    return;
  }
  each_element(op.out, kActivationCost, [&](uint64_t first, uint64_t n) {
    kernels_.gated_activation[static_cast<int>(op.kind)](reals(op.gate) + first, reals(op.up) + first,
                                                         result(op.out) + first, n);
  });
}

void Executor::run(const Rope& op) {
  const RopeDecl& table = program_.ropes[op.table];
  const auto pairs = static_cast<uint32_t>(table.inverse_frequencies.size());
  const auto turn = table.pairing == Pairing::halves     ? kernels_.rope_halves
                    : table.pairing == Pairing::adjacent ? kernels_.rope_adjacent
                                                         : kernels_.rope_adjacent_to_halves;
  const uint32_t width = type(op.x).width;
  each_row(op.out, [&](uint64_t row) {
    const uint64_t angles = step_->rope_row(type(op.x).extent, row) * pairs;
    for (uint32_t head = 0; head < type(op.x).heads; ++head) {
      const float* x = reals(op.x, row) + uint64_t{head} * width;
      float* out = result(op.out, row) + uint64_t{head} * width;
      std::copy_n(x, op.first, out);
      turn({.x = x + op.first,
            .out = out + op.first,
            .cosines = step_->cosines(op.table).data() + angles,
            .sines = step_->sines(op.table).data() + angles,
            .pairs = pairs,
            .width = width - op.first});
    }
  });
}

void Executor::run(const Route& op) {
  share_out(pool_, rows(op.logits), columns(op.logits), [&](const Share& share) {
    for (uint64_t row = share.first; row < share.last; ++row) route_row(op, row, memory_.thread(share.thread));
  });
}

// `scratch`: route_scratch() floats.
void Executor::route_row(const Route& op, uint64_t row, float* scratch) {
  const float* logits = reals(op.logits, row);
  const auto experts = static_cast<int32_t>(columns(op.logits));
  int32_t* chosen = integer_result(op.index, row);
  float* weights = result(op.weight, row);
  const bool sigmoid = op.scoring == Scoring::sigmoid;
  const float* choice = sigmoid ? biased_scores(op, logits, scratch + 2 * op.groups) : logits;
  if (op.groups_used < op.groups)
    choose_in_groups(op, choice, experts, scratch, chosen);
  else
    choose(choice, experts, op.k, chosen, [](int32_t) { return true; });
  for (uint32_t i = 0; i < op.k; ++i) weights[i] = logits[chosen[i]];
  float sum = 1.0f;
  if (sigmoid) {
    kernels_.activation[static_cast<int>(ActivationKind::sigmoid)](weights, weights, op.k);
    if (op.normalise) sum = 1e-20f;
    for (uint32_t i = 0; i < op.k && op.normalise; ++i) sum += weights[i];
  } else {
    const float largest = weights[0];
    sum =
        op.normalise ? kernels_.exp_sum(weights, largest, op.k) : kernels_.exp_sum(logits, largest, columns(op.logits));
    for (uint32_t i = 0; i < op.k; ++i) weights[i] -= largest;
    kernels_.exp(weights, weights, op.k);
  }
  const float* scale = memory_.factors(op.per_expert_scale);
  for (uint32_t i = 0; i < op.k; ++i)
    weights[i] = weights[i] / sum * op.scale * (scale == nullptr ? 1.0f : scale[chosen[i]]);
}

// sigmoid(logits) + bias
const float* Executor::biased_scores(const Route& op, const float* logits, float* scores) const {
  kernels_.activation[static_cast<int>(ActivationKind::sigmoid)](logits, scores, columns(op.logits));
  if (const float* bias = memory_.factors(op.bias); bias != nullptr)
    kernels_.add(scores, bias, scores, columns(op.logits));
  return scores;
}

namespace {

// The columns of the `k` largest scores; of equal ones the first.
void choose_clusters(const float* scores, uint64_t count, std::span<uint32_t> chosen) {
  const auto is_before = [&](uint64_t a, uint64_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  for (size_t i = 0; i < chosen.size(); ++i) {
    uint64_t best = count;
    for (uint64_t c = 0; c < count; ++c) {
      const bool is_taken = i > 0 && !is_before(chosen[i - 1], c);
      if (!is_taken && (best == count || is_before(c, best))) best = c;
    }
    chosen[i] = static_cast<uint32_t>(best < count ? best : i);  // NaNs: any
  }
}

}  // namespace

// Logits of chosen tokens are written in place of a mark; the tokens that still have it then get the rest.
void Executor::run(const ClusteredLogits& op) {
  constexpr float kMark = -std::numeric_limits<float>::infinity();
  const uint64_t width = columns(op.x), tokens = columns(op.out), of_cluster = memory_.weight(op.order).shape.columns;
  const float* const order = memory_.factors(op.order);
  const std::span chosen(reinterpret_cast<uint32_t*>(memory_.thread(0) + width), op.k);
  const auto token_at = [&](uint64_t i) {
    const auto token = static_cast<uint64_t>(std::lround(order[chosen[i / of_cluster] * of_cluster + i % of_cluster]));
    CHECK(token < tokens);
    return token;
  };
  for (uint64_t row = 0; row < rows(op.out); ++row) {
    float* const out = result(op.out, row);
    choose_clusters(reals(op.scores, row), columns(op.scores), chosen);
    share_out(pool_, tokens, 1, [&](const Share& share) { std::fill(out + share.first, out + share.last, kMark); });
    share_out(pool_, op.k * of_cluster, 4 * width, [&](const Share& share) {
      float* const decoded = memory_.thread(share.thread);
      for (uint64_t i = share.first; i < share.last; ++i) {
        const uint64_t token = token_at(i);
        memory_.decode(op.table, 0, static_cast<uint32_t>(token), decoded, 1.0f);
        out[token] = kernels_.dot(decoded, reals(op.x, row), width);
      }
    });
    float least = std::numeric_limits<float>::infinity();
    for (uint64_t i = 0; i < op.k * of_cluster; ++i) least = std::min(least, out[token_at(i)]);
    share_out(pool_, tokens, 1, [&](const Share& share) {
      for (uint64_t token = share.first; token < share.last; ++token)
        if (out[token] == kMark) out[token] = least - 1;
    });
  }
}

void Executor::run(const Gather& op) {
  const uint64_t from_each = columns(op.index), width = columns(op.x);
  each_row(op.out, [&](uint64_t row) {
    for (uint64_t i = 0; i < from_each; ++i) {
      const int32_t from = integers(op.index, row)[i];
      CHECK(from >= -1 && from < static_cast<int64_t>(rows(op.x)));
      float* out = result(op.out, row) + i * width;
      if (from < 0)
        std::fill_n(out, width, 0.0f);
      else
        std::copy_n(reals(op.x, static_cast<uint64_t>(from)), width, out);
    }
  });
}

void Executor::run(const Scatter& op) {
  each_row(op.out, [&](uint64_t row) {
    const int32_t from = *integers(op.index, row);
    CHECK(from >= -1 && from < static_cast<int64_t>(rows(op.rows)));
    const float* x = from < 0 ? reals(op.x, row) : reals(op.rows, static_cast<uint64_t>(from));
    std::copy_n(x, columns(op.out), result(op.out, row));
  });
}

void Executor::run(const Pool& op) {
  const uint64_t width = type(op.x).width, heads = type(op.x).heads;
  share_out(pool_, rows(op.out), heads * width, [&](const Share& share) {
    for (uint64_t row = share.first; row < share.last; ++row) {
      float* out = result(op.out, row);
      std::fill_n(out, width, 0.0f);
      for (uint64_t head = 0; head < heads; ++head)
        kernels_.accumulate(reals(op.x, row) + head * width, op.shares == kNone ? 1.0f : reals(op.shares, row)[head],
                            out, width);
      kernels_.scale(out, op.factor, out, width);
    }
  });
}

void Executor::run(const Slice& op) {
  const uint64_t width = type(op.x).width;
  each_row(op.out, [&](uint64_t row) {
    for (uint64_t head = 0; head < op.heads; ++head)
      std::copy_n(reals(op.x, row) + (op.first_head + head * op.stride) * width, width,
                  result(op.out, row) + head * width);
  });
}

}  // namespace sluice::cpu

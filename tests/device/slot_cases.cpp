#include "slot_cases.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "parity_player.h"

namespace sluice {
namespace {

uint32_t count_of_experts(const OpCase& one) {
  uint32_t most = 0;
  for (const WeightDecl& weight : one.program.weights) most = std::max(most, weight.shape.experts);
  return most;
}

}  // namespace

std::vector<OpCase> cases_with_experts() {
  std::vector<OpCase> cases = cases_of("experts");
  for (OpCase& one : block_cases())
    if (one.name.starts_with("moe")) cases.push_back(std::move(one));
  return cases;
}

void expect_resident_bits(const OpCase& one, Device& device, Arithmetic arithmetic) {
  const CaseWeights weights(one);
  CasePlayer resident(one, weights, device, arithmetic);
  const uint32_t experts = count_of_experts(one);
  for (const uint32_t slots : {1u, 2u, experts / 2 + 1, experts + 1}) {
    CasePlayer streamed(one, weights, device, arithmetic, {.slots = slots, .seed = slots});
    for (const TokenClass token_class : {TokenClass::decode, TokenClass::prompt})
      for (const CaseStep& step : one.steps) {
        const StepOutputs want = resident.play(step, token_class);
        EXPECT_EQ(streamed.play(step, token_class), want) << one.name << ", " << slots << " slots";
      }
    EXPECT_GT(streamed.filler().filled(), 0u);
  }
}

OpCase shared_expert_case() {
  CaseBuilder c("a shared expert");
  const Value x = c.input(64);
  const WeightShape inward{.experts = 6, .rows = 32, .columns = 64}, outward{.experts = 6, .rows = 64, .columns = 32};
  const WeightShape inward_of_shared{.rows = 32, .columns = 64};
  const Weight gate = c.weight(inward, Format::q8_0), up = c.weight(inward, Format::q8_0);
  const Weight down = c.weight(outward, Format::q8_0);
  const Value logits = linear(x, c.weight({.rows = 6, .columns = 64}));
  c.recorder().begin_block(BlockKind::moe);
  const Routed routed = route(logits, {.k = 3});
  const Value y = experts(x, routed, gate, up, down, ActivationKind::silu);
  c.recorder().end_block();
  const Weight shared_gate = c.weight(inward_of_shared), shared_up = c.weight(inward_of_shared);
  const Value shared =
      gated_mlp(x, shared_gate, shared_up, c.weight({.rows = 64, .columns = 32}), ActivationKind::silu);
  c.output(add(y, shared));
  c.row_steps({1, 5, 65});
  return c.done();
}

void expect_resident_finding(const OpCase& one, Device& device) {
  const CaseWeights weights(one);
  CasePlayer resident(one, weights, device, Arithmetic::exact);
  CasePlayer streamed(one, weights, device, Arithmetic::exact, {.slots = 1});
  StepOutputs want, found;
  const Completion a = resident.play_looking(one.steps[1], &want), b = streamed.play_looking(one.steps[1], &found);
  ASSERT_TRUE(a.non_finite && b.non_finite);
  EXPECT_EQ(a.non_finite->op, b.non_finite->op);
  EXPECT_EQ(a.non_finite->row, b.non_finite->row);
  EXPECT_EQ(found, want);
}

}  // namespace sluice

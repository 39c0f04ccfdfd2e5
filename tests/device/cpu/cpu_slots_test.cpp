// Experts that come and go on the CPU: whatever the slots are, and in whatever order experts come, the bits are those
// of experts that are all at hand.
#include <gtest/gtest.h>

#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "graph/expert_guesses.h"
#include "graph/late_experts.h"
#include "tests/device/parity_player.h"
#include "tests/device/slot_cases.h"

namespace sluice {
namespace {

TEST(CpuSlots, GiveTheBitsOfResidentExperts) {
  ThreadPool pool(2);
  for (const SimdLevel level : {SimdLevel::scalar, simd_levels().back()}) {
    const auto device = make_cpu_device({.pool = &pool, .limit = level});
    for (const OpCase& one : cases_with_experts()) {
      expect_resident_bits(one, *device, Arithmetic::fast);
      expect_resident_bits(one, *device, Arithmetic::exact);
    }
  }
}

TEST(LateExperts, ComeBehindOpsThatDoNotNeedThem) {
  const Program program = shared_expert_case().program;
  const Program late = with_late_experts(program);
  std::string order;
  for (const Op& op : late.ops) order += cat(op_name(op), " ");
  EXPECT_EQ(order, "linear route linear linear gated_activation linear experts add ");
  ASSERT_EQ(late.blocks.size(), 1u);
  EXPECT_EQ(late.blocks[0].kind, BlockKind::gated_mlp);
  EXPECT_EQ(late.blocks[0].first_op, 2u);
  EXPECT_EQ(late.blocks[0].end_op, 6u);
}

TEST(LateExperts, GiveTheSameBitsStreamedOrNot) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  const OpCase plain = shared_expert_case();
  OpCase late = plain;
  late.program = with_late_experts(plain.program);
  const CaseWeights weights(plain);
  CasePlayer resident(plain, weights, *device, Arithmetic::fast);
  CasePlayer streamed(late, weights, *device, Arithmetic::fast, {.slots = 2});
  for (const CaseStep& step : plain.steps) {
    const StepOutputs want = resident.play(step, TokenClass::decode);
    EXPECT_EQ(streamed.play(step, TokenClass::decode), want);
  }
}

// Two layers with a router each; the second one reads what the first reads, or what the first gives.
OpCase two_layers(bool same_hidden) {
  CaseBuilder c(same_hidden ? "one hidden state for two layers" : "two layers");
  const Value x = c.input(64);
  const auto layer = [&](Value hidden) {
    const WeightShape inward{.experts = 6, .rows = 32, .columns = 64}, outward{.experts = 6, .rows = 64, .columns = 32};
    const Value h = rms_norm(hidden, c.weight({.columns = 64}), 1e-6f);
    const Value logits = linear(h, c.weight({.rows = 6, .columns = 64}));
    const Routed routed = route(logits, {.k = 2});
    const Weight gate = c.weight(inward), up = c.weight(inward), down = c.weight(outward);
    return add(hidden, experts(h, routed, gate, up, down, ActivationKind::silu));
  };
  const Value y = layer(x);
  c.output(add(y, layer(same_hidden ? x : y)));
  c.row_steps({1, 5, 3, 1});
  return c.done();
}

TEST(ExpertGuesses, StandBeforeTheRouterOfTheLayerBefore) {
  const Program program = with_expert_guesses(two_layers(false).program);
  std::string order;
  for (const Op& op : program.ops) {
    order += cat(op_name(op), " ");
    EXPECT_TRUE(check_op(op, program));
  }
  EXPECT_EQ(order, "rms_norm linear rms_norm linear route route experts add rms_norm linear route experts add add ");
  ASSERT_EQ(program.guesses.size(), 1u);
  EXPECT_EQ(program.guesses[0].first_op, 2u);
  EXPECT_EQ(program.guesses[0].end_op, 5u);
  EXPECT_EQ(program.guesses[0].experts, 11u);
}

TEST(ExpertGuesses, AreRightForAnUnchangedHiddenStateAndChangeNoBit) {
  ThreadPool pool(2);
  const auto device = make_cpu_device({.pool = &pool});
  for (const bool same_hidden : {true, false}) {
    const OpCase plain = two_layers(same_hidden);
    OpCase guessing = plain;
    guessing.program = with_expert_guesses(plain.program);
    const CaseWeights weights(plain);
    CasePlayer resident(plain, weights, *device, Arithmetic::exact);
    CasePlayer streamed(guessing, weights, *device, Arithmetic::exact, {.slots = 1});
    for (const CaseStep& step : plain.steps) {
      const StepOutputs want = resident.play(step, TokenClass::decode);
      EXPECT_EQ(streamed.play(step, TokenClass::decode), want);
    }
    const SlotFiller& filler = streamed.filler();
    EXPECT_EQ(filler.guesses(), plain.steps.size());
    if (same_hidden)
      EXPECT_EQ(filler.right_guesses(), filler.guesses());
    else
      EXPECT_LT(filler.right_guesses(), filler.guesses());
  }
}

// Looking for what is not finite goes op by op, and stops for experts likewise.
TEST(CpuSlots, AreFilledDuringTheSearchForNonFiniteResults) {
  ThreadPool pool(1);
  const auto device = make_cpu_device({.pool = &pool});
  expect_resident_finding(shared_expert_case(), *device);
}

TEST(ReferenceDevice, HasNoSlotsForExperts) {
  const OpCase one = shared_expert_case();
  const auto device = make_reference_device();
  PlanRequest request{.program = &one.program, .expert_slots = {.count = 3, .bytes = kSlotAlignment}};
  for (size_t id = 0; id < one.weights.size(); ++id)
    request.weights.push_back({one.program.weights[id].shape, one.weights[id].format});
  const auto plan = device->plan(request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().text, "experts: found 3 slots to hold them: want all in memory on the reference device");
}

}  // namespace
}  // namespace sluice

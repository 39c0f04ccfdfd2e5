// What ops cost, counted by hand.
#include "graph/cost.h"

#include <gtest/gtest.h>

#include "graph/recorder.h"

namespace sluice {
namespace {

constexpr Extent kWanted{.symbol = Symbol::wanted};

// Of the op of that name.
OpCost cost_of(const CostFacts& facts, std::string_view name, const StepWork& work) {
  for (uint32_t op = 0; op < facts.program->ops.size(); ++op)
    if (op_name(facts.program->ops[op]) == name) return op_cost(facts, op, work);
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(Cost, OfProductsIsTheMatrixOnceAndTwoFlopsAnElementAndRow) {
  Recorder r;
  const Value x = r.input("x", {.width = 64});
  r.output(linear(x, r.weight("w", {.rows = 10, .columns = 64})), "out");
  const Program program = *r.finish();
  const CostFacts facts{.program = &program, .formats = {Format::q8_0}};
  const OpCost cost = cost_of(facts, "linear", {{{5, 2}, {9, 1}}});
  EXPECT_EQ(cost.weight_bytes, 10u * 2 * 34);
  EXPECT_EQ(cost.value_bytes, 3u * (64 + 10) * 4);
  EXPECT_EQ(cost.flops, 3u * 2 * 10 * 64);
  EXPECT_EQ(cost.state_bytes, 0u);
}

TEST(Cost, OfAnAdapterIsOneSlotARowAtMost) {
  Recorder r;
  r.take_adapters({.slots = 4, .rank = 2});
  const Value x = r.input("x", {.width = 64});
  r.output(linear(x, r.weight("w", {.rows = 10, .columns = 64})), "out");
  const Program program = *r.finish();
  const CostFacts facts{.program = &program, .formats = {Format::q8_0, Format::f16, Format::f16}};
  const OpCost three = cost_of(facts, "linear", {{{5, 2}, {9, 1}}});
  EXPECT_EQ(three.weight_bytes, 10u * 2 * 34 + 3 * (2 * 64 + 10 * 2) * 2);
  EXPECT_EQ(three.flops, 3u * 2 * (10 * 64 + 2 * 64 + 10 * 2));
  EXPECT_EQ(cost_of(facts, "linear", {{{0, 9}}}).weight_bytes, 10u * 2 * 34 + 4 * (2 * 64 + 10 * 2) * 2);
}

TEST(Cost, ATableIsReadByRowsUnlessItIsTheHeadToo) {
  Recorder r;
  const Value ids = r.input("tokens", {.width = 1, .element = Element::i32});
  const Weight tied = r.weight("tied", {.rows = 1000, .columns = 32});
  const Weight table = r.weight("table", {.rows = 1000, .columns = 32});
  r.output(linear(add(embed(ids, tied, 1.0f), embed(ids, table, 1.0f)), tied), "out");
  EXPECT_EQ(weight_uses(*r.finish()), (std::vector<WeightUse>{WeightUse::whole, WeightUse::rows}));
}

TEST(Cost, OfATableIsTheRowsThatAreRead) {
  Recorder r;
  const Value ids = r.input("tokens", {.width = 1, .element = Element::i32});
  r.output(embed(ids, r.weight("w", {.rows = 1000, .columns = 32}), 1.0f), "out");
  const Program program = *r.finish();
  EXPECT_EQ(cost_of({.program = &program, .formats = {Format::f16}}, "embed", {{{0, 3}}}).weight_bytes, 3u * 64);
}

TEST(Cost, OfAttentionIsWhatItsWindowSees) {
  Recorder r;
  const Value q = r.input("q", {.heads = 4, .width = 8});
  const Value k = r.input("k", {.heads = 2, .width = 8}), v = r.input("v", {.heads = 2, .width = 8});
  const Value wanted = r.input("wanted", {.extent = kWanted, .width = 1, .element = Element::i32});
  const State state = append(r.paged_state("kv", 2, 8, 8, 10), k, v);
  r.output(attention(gather(q, wanted), state, {.window = 10}), "last");
  r.output(attention(q, state, {.window = 10}), "all");
  const Program program = *r.finish();
  const CostFacts facts{.program = &program, .formats = {}, .state_bytes = {64}};
  const auto cost = [&](size_t nth, const StepWork& work) {
    for (uint32_t op = 0; op < program.ops.size(); ++op)
      if (op_name(program.ops[op]) == "attention" && nth-- == 0) return op_cost(facts, op, work);
    return OpCost();
  };
  // Rows at 7, 8, 9, 10 and 11 see 8, 9, 10, 10 and 10 positions, of 12 in all; the last alone sees 2 to 11.
  EXPECT_EQ(cost(1, {{{7, 5}}}).flops, 47u * 4 * 2 * 16);
  EXPECT_EQ(cost(1, {{{7, 5}}}).state_bytes, 12u * 64);
  EXPECT_EQ(cost(0, {{{7, 5}}}).flops, 10u * 4 * 2 * 16);
  EXPECT_EQ(cost(0, {{{7, 5}}}).state_bytes, 10u * 64);
  EXPECT_EQ(cost(0, {{{7, 5}, {2, 1}}}).state_bytes, 13u * 64);
  EXPECT_EQ(cost_of(facts, "append", {{{7, 5}}}).state_bytes, 5u * 64);
}

TEST(Cost, OfExpertsIsThoseThatSomeRowChooses) {
  const CostFacts alike;
  EXPECT_DOUBLE_EQ(experts_read(alike, 8, 2, 1), 2);
  EXPECT_DOUBLE_EQ(experts_read(alike, 8, 2, 2), 8 * (1 - 0.75 * 0.75));
  const CostFacts measured{.expert_shares = {1, 0.5, 0.5, 0}};
  EXPECT_DOUBLE_EQ(experts_read(measured, 4, 2, 1), 2);
  EXPECT_DOUBLE_EQ(experts_read(measured, 4, 2, 3), 1 + 2 * (1 - 0.125));
}

}  // namespace
}  // namespace sluice

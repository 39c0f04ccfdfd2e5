// Parity cases of the products of training.
#include "graph/cases.h"

namespace sluice {
namespace {

// Appends `op`, whose outputs have been made, and returns one of them.
Value recorded(CaseBuilder& c, const Op& op, Value result) {
  c.recorder().record(op);
  return result;
}

template <class O>
Value with_result(CaseBuilder& c, O op) {
  const Value out = c.recorder().new_value(op.result(c.recorder().program()));
  op.out = out.id;
  return recorded(c, op, out);
}

const std::vector<uint32_t> kSomeRows = {1, 0, 5, 17, 70};

OpCase transposed_case(Format format, uint32_t rows, uint32_t columns) {
  CaseBuilder c(cat(format_name(format), ", ", rows, " by ", columns));
  const Value x = c.input(rows);
  c.output(
      with_result(c, LinearTransposed{.x = x.id, .weight = c.weight({.rows = rows, .columns = columns}, format).id}));
  c.row_steps(format == Format::f32 ? kSomeRows : std::vector<uint32_t>{1, 9});
  return c.done();
}

OpCase outer_case(uint32_t m, uint32_t n, float factor, Extent extent = {}) {
  CaseBuilder c(cat(m, " by ", n, " times ", factor, extent == Extent{} ? "" : ", two to a row"));
  const Value left = c.input(m, 1, {}, extent), right = c.input(n, 1, {}, extent);
  c.output(with_result(c, OuterSum{.left = left.id, .right = right.id, .factor = factor}));
  c.row_steps({1, 0, 17, 300});
  return c.done();
}

struct ChoiceCase {
  Format format{};
  uint32_t experts = 1;
  uint32_t k = 0;  // 0: without an index
  uint32_t rows = 1, columns = 1;
  bool by_choice = false;

  uint32_t choices() const { return k == 0 ? experts : k; }
  WeightShape shape() const { return {.experts = experts, .rows = rows, .columns = columns}; }
};

CaseBuilder choice_builder(const ChoiceCase& one) {
  return CaseBuilder(cat(format_name(one.format), ", ", one.k == 0 ? "all" : cat(one.k), " of ", one.experts, ", ",
                         one.rows, " by ", one.columns, one.by_choice ? ", by choice" : ""));
}

ValueId choice_index(CaseBuilder& c, const ChoiceCase& one) {
  if (one.k == 0) return kNone;
  return c.integers(one.k, {.low = 0, .high = static_cast<float>(one.experts - 1), .distinct = true}).id;
}

OpCase expert_case(const ChoiceCase& one) {
  CaseBuilder c = choice_builder(one);
  const Value x = c.input(one.columns, 1, {}, {Symbol::rows, one.by_choice ? one.choices() : 1});
  const ValueId index = choice_index(c, one);
  const WeightId weight = c.weight(one.shape(), one.format).id;
  c.output(with_result(c, ExpertLinear{.x = x.id, .index = index, .weight = weight, .by_choice = one.by_choice}));
  c.row_steps(kSomeRows);
  return c.done();
}

OpCase expert_transposed_case(const ChoiceCase& one) {
  CaseBuilder c = choice_builder(one);
  const Value x = c.input(one.rows, 1, {}, {Symbol::rows, one.choices()});
  const ValueId index = choice_index(c, one);
  const WeightId weight = c.weight(one.shape(), one.format).id;
  c.output(with_result(c, ExpertLinearTransposed{.x = x.id, .index = index, .weight = weight}));
  c.row_steps(kSomeRows);
  return c.done();
}

OpCase expert_outer_case(const ChoiceCase& one) {
  CaseBuilder c = choice_builder(one);
  const Value left = c.input(one.rows, 1, {}, {Symbol::rows, one.choices()});
  const Value right = c.input(one.columns, 1, {}, {Symbol::rows, one.by_choice ? one.choices() : 1});
  const ValueId index = choice_index(c, one);
  c.output(with_result(c, ExpertOuterSum{.left = left.id,
                                         .right = right.id,
                                         .index = index,
                                         .experts = one.experts,
                                         .by_choice = one.by_choice,
                                         .factor = 0.5f}));
  c.row_steps({1, 0, 17, 130});
  return c.done();
}

std::vector<ChoiceCase> choice_cases() {
  return {
      {Format::f32, 1, 1, 5, 3},         {Format::f32, 4, 2, 33, 7},         {Format::f32, 4, 2, 33, 7, true},
      {Format::bf16, 8, 3, 24, 40},      {Format::q8_0, 8, 8, 40, 64, true}, {Format::f32, 3, 0, 20, 33},
      {Format::f32, 3, 0, 20, 33, true}, {Format::q4_k, 2, 0, 16, 256},      {Format::q8_0, 3, 0, 32, 96},
      {Format::q4_k, 6, 2, 96, 512},
  };
}

struct LossCase {
  const char* name;
  Format format;
  uint32_t vocabulary, columns, rank;
  float softcap = 0;
  float largest = 1;  // of the rows
  bool gradients = true;
};

OpCase loss_case(const LossCase& one) {
  CaseBuilder c(
      cat(one.name, ", ", format_name(one.format), ", ", one.vocabulary, " by ", one.columns, ", rank ", one.rank));
  Recorder& r = c.recorder();
  CrossEntropy op{.factor = 0.75f, .softcap = one.softcap};
  const Value x = c.input(one.columns, 1, {.low = -one.largest, .high = one.largest});
  op.x = x.id;
  op.weight = c.weight({.rows = one.vocabulary, .columns = one.columns}, one.format).id;
  if (one.rank != 0) {
    op.inner = c.input(one.rank).id;
    op.b = c.weight({.rows = one.vocabulary, .columns = one.rank}).id;
  }
  op.target = c.integers(1, {.low = 0, .high = static_cast<float>(one.vocabulary - 1)}).id;
  op.share = c.input(1, 1, {.low = 0.25f}).id;
  const Value loss = r.new_value(op.loss_result(r.program()));
  op.loss = loss.id;
  c.output(loss);
  if (one.gradients) {
    const Value d_x = r.new_value(x.type());
    op.d_x = d_x.id;
    c.output(d_x);
  }
  if (one.gradients && one.rank != 0) {
    const Value d_inner = r.new_value({.width = one.rank}), d_b = r.new_value(op.d_b_result(r.program()));
    op.d_inner = d_inner.id;
    op.d_b = d_b.id;
    c.output(d_inner);
    c.output(d_b);
  }
  r.record(op);
  c.row_steps({1, 0, 5, 17, 70});
  return c.done();
}

}  // namespace

std::vector<OpCase> LinearTransposed::cases() {
  std::vector<OpCase> cases;
  cases.reserve(kWidths.size() + 7 + block_formats().size());
  for (const uint32_t width : kWidths) cases.push_back(transposed_case(Format::f32, width, 101 - width));
  for (const Format format : {Format::f16, Format::bf16}) cases.push_back(transposed_case(format, 33, 50));
  for (const Format format : block_formats())
    cases.push_back(transposed_case(format, 19, format_info(format).block_elements * 2));
  // Fast arithmetic rounds blocks of 32 rows.
  cases.push_back(transposed_case(Format::q8_0, 32, 32));
  cases.push_back(transposed_case(Format::q8_0, 96, 160));
  cases.push_back(transposed_case(Format::q4_k, 288, 512));
  cases.push_back(transposed_case(Format::q6_k, 64, 768));
  // So many outputs that devices take their largest tiles.
  cases.push_back(transposed_case(Format::bf16, 40, 16912));
  return cases;
}

std::vector<OpCase> OuterSum::cases() {
  return {outer_case(1, 1, 1), outer_case(7, 33, 1), outer_case(64, 100, -2),
          outer_case(16, 5, 0.5f, {Symbol::rows, 2})};
}

std::vector<OpCase> ExpertLinear::cases() {
  std::vector<OpCase> cases;
  for (const ChoiceCase& one : choice_cases()) cases.push_back(expert_case(one));
  return cases;
}

std::vector<OpCase> ExpertLinearTransposed::cases() {
  std::vector<OpCase> cases;
  for (const ChoiceCase& one : choice_cases())
    if (!one.by_choice) cases.push_back(expert_transposed_case(one));
  return cases;
}

std::vector<OpCase> ExpertOuterSum::cases() {
  std::vector<OpCase> cases;
  for (const ChoiceCase& one : choice_cases()) cases.push_back(expert_outer_case(one));
  return cases;
}

std::vector<OpCase> CrossEntropy::cases() {
  std::vector<OpCase> cases;
  for (const LossCase& one : {
           LossCase{"plain", Format::f32, 37, 20, 0},
           {"adapter", Format::f32, 37, 20, 3},
           {"softcap", Format::bf16, 100, 33, 5, 3.0f},
           {"large", Format::f32, 300, 64, 0, 0, 30},
           {"blocks", Format::q6_k, 70, 256, 4, 30},
           {"evaluation", Format::f32, 37, 20, 0, 0, 1, false},
           {"evaluation with adapter", Format::q6_k, 70, 256, 4, 30, 1, false},
       })
    cases.push_back(loss_case(one));
  return cases;
}

}  // namespace sluice

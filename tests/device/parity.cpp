#include "parity.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>

#include "device/placing.h"
#include "device/reference/reference.h"
#include "graph/operands.h"
#include "parity_compare.h"
#include "parity_player.h"

namespace sluice {
namespace {

constexpr Arithmetic kArithmetics[] = {Arithmetic::exact, Arithmetic::fast};

std::string label(const OpCase& one, Arithmetic arithmetic, TokenClass token_class) {
  return cat(one.name, arithmetic == Arithmetic::exact ? ", exact" : ", fast", ", ", token_class_name(token_class));
}

bool is_product(const Op& op) {
  return std::holds_alternative<Linear>(op) || std::holds_alternative<Experts>(op) ||
         std::holds_alternative<LinearTransposed>(op) || std::holds_alternative<ExpertLinearTransposed>(op);
}

// Transposed products round blocks of 32 rows of a weight; others stay in f32.
bool may_round(const Program& program, const Op& op) {
  constexpr uint32_t kBlockRows = 32;
  WeightId transposed = kNone;
  if (const auto* linear = std::get_if<LinearTransposed>(&op)) transposed = linear->weight;
  if (const auto* linear = std::get_if<ExpertLinearTransposed>(&op)) transposed = linear->weight;
  return transposed == kNone || program.weights[transposed].shape.rows % kBlockRows == 0;
}

// Results pass through every op of a case, so their tolerances add up.
float tolerance_of(const OpCase& one, Arithmetic arithmetic, const FastProducts& fast) {
  const bool quantised = std::any_of(one.weights.begin(), one.weights.end(), [](const CaseWeight& weight) {
    return format_info(weight.format).block_elements > 1;
  });
  const bool all_f32 =
      std::ranges::all_of(one.weights, [](const CaseWeight& weight) { return weight.format == Format::f32; });
  float sum = 0;
  for (const Op& op : one.program.ops) {
    const Tolerance& bar = op_doc(op).tolerance;
    const bool rounds = quantised                         ? fast.block != 0
                        : fast.activations == Format::f16 ? !all_f32
                                                          : fast.activations != Format::f32;
    const bool exact = arithmetic == Arithmetic::exact || (is_product(op) && (!rounds || !may_round(one.program, op)));
    // Other devices compute these in f32, but for what may_round() says. A number is within 5e-4 of its f16. A share of
    // the softmax is off by its logit's error, and logits are at most some 8.
    constexpr float kOfHalves = 4e-3f;
    const bool as_linear = fast.activations == Format::f16 && !all_f32 &&
                           (std::holds_alternative<LinearTransposed>(op) || std::holds_alternative<CrossEntropy>(op));
    if (arithmetic == Arithmetic::fast && as_linear)
      sum += std::max(quantised ? bar.fast_8bit : bar.fast, kOfHalves);
    else
      sum += exact ? bar.exact : quantised ? bar.fast_8bit : bar.fast;
  }
  return sum;
}

template <class O>
const O* producer(const Program& program, ValueId id) {
  const O* found = nullptr;
  for (const Op& op : program.ops)
    for_each_output(op, [&](ValueId out) {
      if (out == program.values[id].storage) found = std::get_if<O>(&op);
    });
  return found;
}

std::span<const float> as_floats(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const float*>(words.data()), words.size()};
}

void compare(const OpCase& one, const std::vector<NamedValue>& reads, const StepOutputs& found,
             const StepOutputs& expected, float tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const ValueId id = reads[i].value;
    const ValueType& type = one.program.values[id].type;
    std::string off;
    if (type.element == Element::f32)
      off = difference(as_floats(found[i]), as_floats(expected[i]), type.columns(), tolerance);
    else if (producer<Sample>(one.program, id) != nullptr)
      off = sample_difference(found[i], expected[i], tolerance);
    else
      off = integer_difference(found[i], expected[i], type.columns());
    EXPECT_EQ(off, "") << reads[i].name;
  }
}

// An oracle that expects nothing would let everything pass.
void expect_something(const OpCase& one, const std::vector<StepOutputs>& expected) {
  for (size_t i = 0; i < one.program.outputs.size(); ++i) {
    if (one.program.values[one.program.outputs[i].value].type.element != Element::f32) continue;
    float largest = 0;
    for (const StepOutputs& step : expected)
      for (const float x : as_floats(step[i])) largest = std::max(largest, std::fabs(x));
    EXPECT_GT(largest, 1e-4f) << one.name << ": " << one.program.outputs[i].name << " is as good as zero";
  }
}

std::vector<StepOutputs> play_all(CasePlayer& player, const OpCase& one, TokenClass token_class) {
  std::vector<StepOutputs> outputs;
  for (const CaseStep& step : one.steps) outputs.push_back(player.play(step, token_class));
  return outputs;
}

struct Expected {
  std::vector<StepOutputs> steps;
  Completion completion{};
};

// What the f64 oracle says of a case does not depend on the device that is held to it: it is asked once for all of
// them.
template <class Ask>
const Expected& oracle_says(const std::string& question, const Ask& ask) {
  static std::map<std::string, Expected> answers;
  const auto known = answers.find(question);
  if (known != answers.end()) return known->second;
  const std::unique_ptr<Device> oracle = make_reference_device_f64();
  return answers.emplace(question, ask(*oracle)).first->second;
}

const Expected& expected_outputs(const ParityCase& known, const CaseWeights& weights) {
  const OpCase& one = known.op;
  return oracle_says(cat(known.key, ", outputs"), [&](Device& oracle) {
    CasePlayer player(one, weights, oracle, Arithmetic::exact);
    return Expected{.steps = play_all(player, one, TokenClass::prompt)};
  });
}

// Part of a step, to be played on its own: rows of each symbol from `first` on.
struct Part {
  SymbolCounts first;
  CaseStep step{};
};

// The rows [first, first + count) of `run`, which begins at row `run_row` of the step.
Part part_of(const CaseStep& step, const CaseRun& run, uint32_t run_row, uint32_t first, uint32_t count) {
  Part part{.first = text_counts(run_row + first, 0)};
  part.step.runs = {{.sequence = run.sequence, .position = run.position + first, .rows = count, .take = run.take}};
  part.step.adjustments = step.adjustments;
  part.step.masks = step.masks;
  part.step.media = step.media;  // what rows of text are in the place of
  const auto row_of = [&](size_t w) { return static_cast<uint32_t>(step.wanted[w]); };
  const uint32_t begin = part.first[Symbol::rows];
  uint32_t& first_wanted = part.first[Symbol::wanted];
  while (first_wanted < step.wanted.size() && row_of(first_wanted) < begin) ++first_wanted;
  for (size_t w = first_wanted; w < step.wanted.size() && row_of(w) < begin + count; ++w) {
    part.step.wanted.push_back(static_cast<int32_t>(row_of(w) - begin));
    if (!step.sampling.empty()) part.step.sampling.push_back(step.sampling[w]);
  }
  return part;
}

// Each picture or sound.
std::vector<Part> media_parts(const OpCase& one, const CaseStep& step) {
  std::vector<Part> parts;
  SymbolCounts first;
  for (const CaseRun& run : step.media) {
    parts.push_back({.first = first, .step = {.media = {run}}});
    for (const Symbol symbol : one.program.symbols) first[symbol] += run.rows;
  }
  return parts;
}

// Whether a cut before that position would part rows that see each other.
bool is_in_span(const OpCase& one, uint32_t position) {
  return std::any_of(one.spans.begin(), one.spans.end(),
                     [&](const CaseSpan& span) { return span.first < position && position < span.end; });
}

// Single rows; with state in a prompt, which may be cut at multiples of 64 only, such chunks. Without state some rows
// stand for all.
std::vector<Part> parts_of(const OpCase& one, const CaseStep& step, TokenClass token_class) {
  const bool state = !one.program.states.empty();
  const uint32_t chunk = state && token_class == TokenClass::prompt ? kPagePositions : 1;
  std::vector<Part> parts;
  uint32_t run_row = 0;
  for (const CaseRun& run : step.runs) {
    for (uint32_t first = 0; first < run.rows;) {
      uint32_t count = std::min(run.rows - first, chunk - (run.position + first) % chunk);
      if (one.whole_runs) count = run.rows;
      while (is_in_span(one, run.position + first + count)) count = std::min(run.rows - first, count + chunk);
      const bool chosen = state || first < 2 || first + 1 == run.rows || first % 61 == 3;
      if (chosen) parts.push_back(part_of(step, run, run_row, first, count));
      first += count;
    }
    run_row += run.rows;
  }
  if (!step.runs.empty()) return parts;
  const std::vector<Part> media = media_parts(one, step);
  parts.insert(parts.end(), media.begin(), media.end());
  return parts;
}

void expect_same_rows(const OpCase& one, const StepOutputs& batch, const StepOutputs& alone, const Part& part) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const ValueType& type = one.program.values[one.program.outputs[i].value].type;
    if (type.extent.symbol == Symbol::one) continue;  // a sum over all rows
    const uint64_t first = part.first.rows_of(type.extent);
    const std::span<const uint32_t> rows =
        std::span<const uint32_t>(batch[i]).subspan(first * type.columns(), alone[i].size());
    EXPECT_EQ(integer_difference(alone[i], rows, type.columns()), "")
        << one.program.outputs[i].name << ", bits from row " << first << " on";
  }
}

void check_rows_alone(const OpCase& one, const CaseWeights& weights, Device& device, Arithmetic arithmetic,
                      TokenClass token_class) {
  SCOPED_TRACE(label(one, arithmetic, token_class));
  CasePlayer together(one, weights, device, arithmetic), apart(one, weights, device, arithmetic);
  together.poison();
  for (const CaseStep& step : one.steps) {
    const StepOutputs batch = together.play(step, token_class);
    for (const Part& part : parts_of(one, step, token_class))
      expect_same_rows(one, batch, apart.play(part.step, token_class), part);
  }
}

// Whatever the numbers are, indices stay in range and `finite` falls.
void check_integers(const OpCase& one, const StepOutputs& found, const StepOutputs& expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    const ValueId id = one.program.outputs[i].value;
    if (const Route* route = producer<Route>(one.program, id); route != nullptr && route->index == id) {
      const uint32_t experts = one.program.values[route->logits].type.width;
      for (const uint32_t index : found[i]) EXPECT_LT(index, experts);
    }
    if (producer<Sample>(one.program, id) == nullptr) continue;
    for (size_t word = 1; word < found[i].size(); word += kSampleWords) EXPECT_EQ(found[i][word], expected[i][word]);
  }
}

uint64_t row_count(const OpCase& one, const CaseStep& step) {
  const SymbolCounts counts = counts_of(one, step);
  return std::accumulate(counts.all().begin(), counts.all().end(), uint64_t{0});
}

// The largest step that needs no history.
const CaseStep& first_step(const OpCase& one) {
  const CaseStep* largest = &one.steps[0];
  for (const CaseStep& step : one.steps) {
    const bool begins = std::all_of(step.runs.begin(), step.runs.end(), [](CaseRun run) { return run.position == 0; });
    if ((begins || one.program.states.empty()) && row_count(one, step) > row_count(one, *largest)) largest = &step;
  }
  return *largest;
}

void check_non_finite(const ParityCase& known, const CaseWeights& weights, Device& device, Arithmetic arithmetic) {
  const OpCase& one = known.op;
  SCOPED_TRACE(label(one, arithmetic, TokenClass::decode));
  const Expected& answer =
      oracle_says(cat(known.key, ", not finite, ", label(one, arithmetic, TokenClass::decode)), [&](Device& oracle) {
        CasePlayer reference(one, weights, oracle, arithmetic);
        Expected said{.steps = {1, StepOutputs()}};
        said.completion = reference.play_looking(first_step(one), &said.steps[0]);
        return said;
      });
  CasePlayer player(one, weights, device, arithmetic);
  StepOutputs found_outputs;
  const Completion found = player.play_looking(first_step(one), &found_outputs);
  const Completion& expected = answer.completion;
  ASSERT_EQ(found.non_finite.has_value(), expected.non_finite.has_value());
  check_integers(one, found_outputs, answer.steps[0]);
  if (!expected.non_finite) return;
  EXPECT_EQ(found.non_finite->op, expected.non_finite->op);
  EXPECT_EQ(found.non_finite->row, expected.non_finite->row);
  EXPECT_EQ(found.non_finite->layer, expected.non_finite->layer);
  EXPECT_EQ(found.non_finite->what, expected.non_finite->what);
}

// The state is moved between steps: within the runner, and by way of memory to another one.
void check_moved_pages(const OpCase& one, const CaseWeights& weights, Device& device, Arithmetic arithmetic) {
  SCOPED_TRACE(label(one, arithmetic, TokenClass::decode));
  CasePlayer still(one, weights, device, arithmetic), copied(one, weights, device, arithmetic),
      saved(one, weights, device, arithmetic);
  CasePlayer loaded(one, weights, device, arithmetic);
  loaded.poison();
  const size_t half = one.steps.size() / 2;
  for (size_t i = 0; i < one.steps.size(); ++i) {
    if (i == half) {
      copied.move_pages();
      saved.move_pages_to(loaded);
    }
    const StepOutputs expected = still.play(one.steps[i], TokenClass::decode);
    EXPECT_EQ(copied.play(one.steps[i], TokenClass::decode), expected) << "copied pages, step " << i;
    CasePlayer& other = i < half ? saved : loaded;
    EXPECT_EQ(other.play(one.steps[i], TokenClass::decode), expected) << "pages written to another runner, step " << i;
  }
}

// Every op's result is named, also those inside blocks, and read back.
void check_traced(const ParityCase& known, Device& device, Arithmetic arithmetic, const FastProducts& fast) {
  OpCase one = known.op;
  SCOPED_TRACE(label(one, arithmetic, TokenClass::prompt));
  for (const Op& op : one.program.ops)
    for_each_output(op, [&](ValueId id) {
      one.program.names.push_back({.name = cat(op_name(op), " to value ", id), .value = id});
    });
  const CaseWeights weights(one);
  const Expected& expected =
      oracle_says(cat(known.key, ", traced, ", label(one, arithmetic, TokenClass::prompt)), [&](Device& oracle) {
        CasePlayer reference(one, weights, oracle, arithmetic, {.traced = true});
        return Expected{.steps = play_all(reference, one, TokenClass::prompt)};
      });
  CasePlayer player(one, weights, device, arithmetic, {.traced = true});
  const std::vector<StepOutputs> found = play_all(player, one, TokenClass::prompt);
  for (size_t i = 0; i < found.size(); ++i)
    compare(one, player.reads(), found[i], expected.steps[i], tolerance_of(one, arithmetic, fast));
}

bool has_adapters(const OpCase& one) {
  return std::ranges::any_of(one.program.inputs, [](const NamedValue& in) { return in.name == "adapter_slots"; });
}

OpCase without_adapters(OpCase one) {
  for (Op& op : one.program.ops) {
    if (auto* embed = std::get_if<Embed>(&op)) embed->adapter = {}, embed->adapter_tokens = kNone;
    if (auto* linear = std::get_if<Linear>(&op)) linear->adapter = {};
    if (auto* experts = std::get_if<Experts>(&op)) experts->adapters = {};
    if (auto* attention = std::get_if<Attention>(&op))
      attention->expand.key_adapter = attention->expand.value_adapter = {};
  }
  return one;
}

OpCase with_zeros(OpCase one, const std::string& input) {
  for (size_t i = 0; i < one.inputs.size(); ++i)
    if (one.program.inputs[i].name == input) one.inputs[i] = {.low = 0, .high = 0};
  return one;
}

bool lacks(const std::vector<std::string>& missing, const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [&](const Op& op) { return !lacking_of(missing, op).empty(); });
}

}  // namespace

std::vector<ParityParam> parity_params(const std::vector<ParityDevice>& devices) {
  std::vector<ParityParam> params;
  for (const ParityDevice& device : devices)
    for (const std::string_view subject : case_subjects())
      params.push_back({.device = device, .subject = std::string(subject)});
  return params;
}

std::string parity_name(const testing::TestParamInfo<ParityParam>& info) {
  return info.param.device.name + "_" + info.param.subject;
}

void Parity::SetUp() {
  device_ = GetParam().device.make();
  if (device_ == nullptr) GTEST_SKIP() << GetParam().device.name << ": not here";
  for (const OpCase& one : cases_of(GetParam().subject))
    cases_.push_back({.op = one, .key = cat(GetParam().subject, " ", cases_.size())});
  const std::vector<std::string> missing = device_->info().missing;
  std::erase_if(cases_, [&](const ParityCase& one) { return lacks(missing, one.op.program); });
  if (cases_.empty()) GTEST_SKIP() << "in the " << device_->info().name << " device's table of missing ops";
  // Where a driver takes minutes to compile for all of them.
  if (const char* every = std::getenv("SLUICE_PARITY_EVERY")) {
    const size_t stride = std::max(1, std::atoi(every)), last = cases_.size() - 1;
    size_t number = 0;
    std::erase_if(cases_, [&](const ParityCase&) {
      const size_t own = number++;
      return own % stride != 0 && own != last;
    });
  }
}

TEST_P(Parity, AgreesWithTheReference) {
  for (const ParityCase& known : cases_) {
    const OpCase& one = known.op;
    const CaseWeights weights(one);
    const std::vector<StepOutputs>& expected = expected_outputs(known, weights).steps;
    expect_something(one, expected);
    for (const Arithmetic arithmetic : kArithmetics)
      for (const TokenClass token_class : kTokenClasses) {
        SCOPED_TRACE(label(one, arithmetic, token_class));
        CasePlayer player(one, weights, *device_, arithmetic);
        player.poison();
        const std::vector<StepOutputs> found = play_all(player, one, token_class);
        for (size_t i = 0; i < expected.size(); ++i) {
          SCOPED_TRACE(cat("step ", i));
          compare(one, player.reads(), found[i], expected[i],
                  tolerance_of(one, arithmetic, GetParam().device.fast_products()));
        }
      }
  }
}

TEST_P(Parity, RowsAloneEqualRowsInABatch) {
  for (const ParityCase& one : cases_)
    for (const Arithmetic arithmetic : kArithmetics)
      for (const TokenClass token_class : kTokenClasses)
        check_rows_alone(one.op, CaseWeights(one.op), *device_, arithmetic, token_class);
}

// Rows that all have slot 0, and rows that all have scale 0, against the same program without the operand.
TEST_P(Parity, AnAdapterOfNoSlotOrNoScaleChangesNoBit) {
  for (const ParityCase& known : cases_) {
    if (!has_adapters(known.op)) continue;
    const CaseWeights weights(known.op);
    for (const Arithmetic arithmetic : kArithmetics)
      for (const TokenClass token_class : kTokenClasses) {
        SCOPED_TRACE(label(known.op, arithmetic, token_class));
        const OpCase plain = without_adapters(known.op);
        CasePlayer player(plain, weights, *device_, arithmetic);
        const std::vector<StepOutputs> expected = play_all(player, plain, token_class);
        for (const char* input : {"adapter_slots", "adapter_scales"}) {
          const OpCase unused = with_zeros(known.op, input);
          CasePlayer zeros(unused, weights, *device_, arithmetic);
          EXPECT_EQ(play_all(zeros, unused, token_class), expected) << input;
        }
      }
  }
}

TEST_P(Parity, FindsTheFirstResultThatIsNotFinite) {
  for (const ParityCase& one : cases_)
    for (const Arithmetic arithmetic : kArithmetics) check_non_finite(one, CaseWeights(one.op), *device_, arithmetic);
}

TEST_P(Parity, ATracedPlanShowsEveryResult) {
  for (const ParityCase& one : cases_)
    for (const Arithmetic arithmetic : kArithmetics)
      check_traced(one, *device_, arithmetic, GetParam().device.fast_products());
}

TEST_P(Parity, StateMayMoveToOtherPages) {
  for (const ParityCase& one : cases_)
    if (!one.op.program.states.empty())
      for (const Arithmetic arithmetic : kArithmetics)
        check_moved_pages(one.op, CaseWeights(one.op), *device_, arithmetic);
}

}  // namespace sluice

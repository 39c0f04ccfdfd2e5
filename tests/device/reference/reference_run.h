// One step of a small program on the reference device, for tests with numbers worked out by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/reference/reference.h"
#include "graph/recorder.h"

namespace sluice {

class FloatWeights : public WeightSource {
 public:
  Weight add(Recorder& recorder, const std::string& name, WeightShape shape, std::vector<float> numbers) {
    const auto owner = std::make_shared<std::vector<float>>(std::move(numbers));
    sources_[name] = {.shape = shape,
                      .format = Format::f32,
                      .bytes = reinterpret_cast<const std::byte*>(owner->data()),
                      .expert_stride = uint64_t{shape.rows} * shape.columns * 4,
                      .row_stride = uint64_t{shape.columns} * 4,
                      .owner = owner};
    return recorder.weight(name, shape);
  }
  Result<TensorSource> find(const std::string& name) const override {
    const auto found = sources_.find(name);
    if (found == sources_.end()) return error(ErrorKind::not_found, "weight ", name, ": found none: want one");
    return found->second;
  }

 private:
  std::map<std::string, TensorSource> sources_;
};

// Record with `recorder` and `weights`, then fill `step` and run.
struct ReferenceRun {
  Recorder recorder;
  FloatWeights weights;
  Program program;
  std::unique_ptr<StepBuffer> step;
  std::unique_ptr<Runner> runner;
  Budget budget;

  Value input(const char* name, uint32_t width, uint32_t heads = 1) {
    return recorder.input(name, {.heads = heads, .width = width});
  }
  Value integers(const char* name, uint32_t width = 1, Symbol symbol = Symbol::rows) {
    return recorder.input(name, {.extent = {.symbol = symbol}, .width = width, .element = Element::i32});
  }
  Weight weight(const char* name, WeightShape shape, std::vector<float> numbers) {
    return weights.add(recorder, name, shape, std::move(numbers));
  }

  // One sequence of `rows` rows from position 0, pages in order; the last row is wanted.
  void begin(uint32_t rows, uint32_t pages = 1) {
    Result<Program> finished = recorder.finish();
    ASSERT_TRUE(finished.ok()) << finished.error().text;
    program = *std::move(finished);
    const std::vector<uint32_t> by_group(program.groups.size(), pages);
    const SymbolCounts counts = text_counts(rows, has_symbol(program, Symbol::wanted) ? 1 : 0);
    const StepMaxima maxima{.counts = counts, .sequences = 1, .pages_per_sequence = by_group, .adjustments = 4};
    std::vector<PlacedShape> shapes;
    for (const WeightDecl& weight : program.weights) shapes.push_back({.shape = weight.shape, .format = Format::f32});
    const std::unique_ptr<Device> device = make_reference_device();
    auto plan = device->plan({.program = &program, .maxima = maxima, .pages = by_group, .weights = shapes});
    ASSERT_TRUE(plan.ok()) << plan.error().text;
    auto placed = device->place(*std::move(plan), weights, budget);
    ASSERT_TRUE(placed.ok()) << placed.error().text;
    runner = *std::move(placed);
    step = std::make_unique<StepBuffer>(program, maxima);
    step->reset(TokenClass::prompt, counts, 1, 0);
    for (uint32_t row = 0; row < rows; ++row) step->positions()[row] = static_cast<int32_t>(row);
    for (uint32_t group = 0; group < program.groups.size(); ++group)
      for (uint32_t page = 0; page < pages; ++page) step->pages(group, 0)[page] = static_cast<int32_t>(page);
    step->fill_ropes();
  }
  void set(uint32_t input, const std::vector<float>& numbers) {
    std::copy(numbers.begin(), numbers.end(), step->input_f32(input).begin());
  }
  void set_integers(uint32_t input, const std::vector<int32_t>& numbers) {
    std::copy(numbers.begin(), numbers.end(), step->input_i32(input).begin());
  }

  template <class T = float>
  std::vector<T> output(size_t index = 0, const StartOptions& options = {}) {
    const ValueId id = program.outputs[index].value;
    const ValueType& type = program.values[id].type;
    std::vector<T> numbers(step->rows_of(type.extent) * type.columns());
    const ReadRequest read{.value = id, .into = std::as_writable_bytes(std::span<T>(numbers))};
    runner->start(*step, {&read, 1}, options);
    completion = *runner->poll();
    EXPECT_TRUE(completion.status.ok());
    return numbers;
  }
  Completion completion;
};

inline void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-6f * std::max(1.0f, std::abs(expected[i]))) << i;
}

}  // namespace sluice

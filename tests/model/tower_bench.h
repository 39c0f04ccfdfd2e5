// A tower's program on a device in exact arithmetic, one picture or sound a step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/model/text_bench.h"

namespace sluice {

using NamedRows = std::map<std::string, std::vector<float>>;

class TowerBench {
 public:
  TowerBench(const Model& model, ProgramKind kind, std::unique_ptr<Device> device)
      : program_(record(model, kind)), weights_(model.weights_of(kind)), device_(std::move(device)) {}

  // Every named value and output of one step.
  NamedRows play(const TowerInputs& inputs) {
    const StepMaxima maxima{.counts = {{Symbol::media_rows, inputs.rows}}};
    PlanRequest request{.program = &program_, .arithmetic = Arithmetic::exact, .maxima = maxima, .traced = true};
    for (const WeightDecl& weight : program_.weights) {
      const Result<TensorSource> source = weights_.find(weight.name);
      EXPECT_TRUE(source) << source.error().text;
      request.weights.push_back({source->shape, source->format, !source->parts.empty()});
    }
    Result<std::unique_ptr<Plan>> plan = device_->plan(request);
    EXPECT_TRUE(plan) << plan.error().text;
    Budget budget;
    Result<std::unique_ptr<Runner>> runner = device_->place(std::move(*plan), weights_, budget);
    EXPECT_TRUE(runner) << runner.error().text;
    StepBuffer step(program_, maxima);
    step.reset(TokenClass::prompt, maxima.counts, 0, 0);
    fill(step, inputs);
    NamedRows rows;
    std::vector<ReadRequest> reads;
    for (const std::vector<NamedValue>& list : {program_.names, program_.outputs})
      for (const NamedValue& named : list) {
        const ValueType& type = program_.values[named.value].type;
        std::vector<float>& into = rows[named.name];
        into.resize(step.rows_of(type.extent) * type.columns());
        reads.push_back({named.value, std::as_writable_bytes(std::span(into))});
      }
    (*runner)->start(step, reads);
    const Status done = (*runner)->poll()->status;
    EXPECT_TRUE(done.ok()) << done.error().text;
    return rows;
  }

  const Program& program() const { return program_; }

 private:
  static Program record(const Model& model, ProgramKind kind) {
    Result<Program> program = model.record(kind);
    EXPECT_TRUE(program) << program.error().text;
    return *std::move(program);
  }

  void fill(StepBuffer& step, const TowerInputs& inputs) {
    EXPECT_EQ(inputs.inputs.size(), program_.inputs.size());
    for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
      const auto found = std::ranges::find(inputs.inputs, program_.inputs[i].name, &TowerInput::name);
      ASSERT_NE(found, inputs.inputs.end()) << program_.inputs[i].name;
      const bool integers = program_.values[program_.inputs[i].value].type.element == Element::i32;
      const std::span<std::byte> into =
          integers ? std::as_writable_bytes(step.input_i32(i)) : std::as_writable_bytes(step.input_f32(i));
      ASSERT_EQ(into.size(), found->words.size() * sizeof(uint32_t)) << found->name;
      std::ranges::copy(std::as_bytes(std::span(found->words)), into.begin());
    }
    step.fill_ropes();
  }

  Program program_;
  const WeightSource& weights_;
  std::unique_ptr<Device> device_;
};

}  // namespace sluice

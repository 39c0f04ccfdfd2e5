// A model's text program on the reference device, or another, its step filled by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "device/reference/reference.h"
#include "model/model.h"

namespace sluice {

inline Result<Model> open_model(const std::string& path) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  return resolve(std::make_shared<const Checkpoint>(std::move(checkpoint)));
}

// A program on a device in exact arithmetic, with room for one sequence of `rows` tokens whose page i is page i, and
// whose recurrent state begins as zeros.
class TextBench {
 public:
  TextBench(const Model& model, Program program, uint32_t rows,
            std::unique_ptr<Device> device = make_reference_device(), const WeightSource* weights = nullptr)
      : program_(std::move(program)), device_(std::move(device)) {
    const uint32_t pages = (rows + kPagePositions - 1) / kPagePositions;
    maxima_ = {.counts = text_counts(rows, rows), .sequences = 1};
    if (has_symbol(program_, Symbol::media_rows)) maxima_.counts[Symbol::media_rows] = rows;
    for (const PageGroup& group : program_.groups)
      maxima_.pages_per_sequence.push_back(group.kind == StateKind::slots ? kSlotEntries : pages);
    if (weights == nullptr) weights = &model.weights();
    PlanRequest request{.program = &program_, .arithmetic = Arithmetic::exact, .maxima = maxima_, .traced = true};
    request.pages.assign(program_.groups.size(), pages);
    for (const WeightDecl& weight : program_.weights) {
      const Result<TensorSource> source = weights->find(weight.name);
      request.weights.push_back({source->shape, source->format, !source->parts.empty()});
    }
    Result<std::unique_ptr<Plan>> plan = device_->plan(request);
    EXPECT_TRUE(plan) << plan.error().text;
    Result<std::unique_ptr<Runner>> runner = device_->place(std::move(*plan), *weights, budget_);
    EXPECT_TRUE(runner) << runner.error().text;
    runner_ = std::move(*runner);
  }

  const Program& program() const { return program_; }

  // Of every row from now on, in a program with adapters.
  void use_adapter(int32_t slot, float scale) {
    slot_ = slot;
    scale_ = scale;
  }

  // Rows of pictures from now on, in a program of a model with a vision tower: for each token the row in its place or
  // -1, and coordinates, as many for each token as the program takes.
  struct Media {
    std::vector<int32_t> at;
    std::vector<float> rows;
    std::vector<int32_t> coordinates;
  };
  void use_media(Media media) { media_ = std::move(media); }

  // Plays all tokens as one prompt and reads every value that `names` asks for, four bytes an element.
  std::vector<std::vector<float>> play(const std::vector<int32_t>& tokens, const std::vector<int32_t>& wanted,
                                       const std::vector<ValueId>& values, const std::vector<float>& hidden = {}) {
    StepBuffer step(program_, maxima_);
    SymbolCounts counts = text_counts(static_cast<uint32_t>(tokens.size()), static_cast<uint32_t>(wanted.size()));
    counts[Symbol::media_rows] = media_rows();
    step.reset(TokenClass::prompt, counts, 1, 0);
    std::ranges::copy(tokens, step.input_i32(0).begin());
    std::ranges::copy(wanted, step.input_i32(1).begin());
    if (!hidden.empty()) std::ranges::copy(hidden, step.input_f32(2).begin());  // of a draft head
    for (uint32_t input = 0; input < program_.inputs.size(); ++input) {
      if (program_.inputs[input].name == "adapter_slots") std::ranges::fill(step.input_i32(input), slot_);
      if (program_.inputs[input].name == "adapter_scales") std::ranges::fill(step.input_f32(input), scale_);
    }
    for (uint32_t row = 0; row < step.rows(); ++row) step.positions()[row] = static_cast<int32_t>(row);
    std::ranges::fill(step.row_sequences(), 0);
    fill_media(step);
    step.fill_ropes();
    for (uint32_t group = 0; group < program_.groups.size(); ++group) {
      step.first_page(group, 0) = 0;
      for (uint32_t i = 0; i < step.pages(group, 0).size(); ++i) step.pages(group, 0)[i] = static_cast<int32_t>(i);
      if (program_.groups[group].kind != StateKind::slots) continue;
      step.pages(group, 0)[kSlotRead] = -1;
      step.pages(group, 0)[kSlotWritten] = 0;
    }
    std::vector<std::vector<float>> read;
    std::vector<ReadRequest> requests;
    for (const ValueId value : values) {
      const ValueType& type = program_.values[value].type;
      read.emplace_back(step.rows_of(type.extent) * type.columns());
    }
    for (size_t i = 0; i < values.size(); ++i)
      requests.push_back({values[i], std::as_writable_bytes(std::span(read[i]))});
    runner_->start(step, requests);
    EXPECT_TRUE(runner_->poll()->status.ok());
    return read;
  }

 private:
  // Of the rows that are given.
  uint32_t media_rows() const {
    for (const NamedValue& input : program_.inputs)
      if (input.name == "media_rows")
        return static_cast<uint32_t>(media_.rows.size() / program_.values[input.value].type.columns());
    return 0;
  }
  // Without media every token stands for itself, and its coordinates are its position.
  void fill_media(StepBuffer& step) const {
    for (uint32_t input = 0; input < program_.inputs.size(); ++input) {
      const std::string& name = program_.inputs[input].name;
      if (name == "media_rows") std::ranges::copy(media_.rows, step.input_f32(input).begin());
      if (name == "last") std::ranges::copy(step.positions(), step.input_i32(input).begin());
      if (name != "media" && name != "coordinates") continue;
      const std::span<int32_t> filled = step.input_i32(input);
      const std::vector<int32_t>& given = name == "media" ? media_.at : media_.coordinates;
      for (size_t i = 0; i < filled.size(); ++i)
        filled[i] = !given.empty()    ? given[i]
                    : name == "media" ? -1
                                      : step.positions()[i * step.rows() / filled.size()];
    }
  }

  Program program_;
  std::unique_ptr<Device> device_;
  Budget budget_;
  StepMaxima maxima_;
  std::unique_ptr<Runner> runner_;
  int32_t slot_ = 0;
  float scale_ = 0.0f;
  Media media_;
};

inline ValueId find_value(const Program& program, const std::string& name) {
  for (const std::vector<NamedValue>& values : {program.outputs, program.names})
    for (const NamedValue& value : values)
      if (value.name == name) return value.value;
  return kNone;
}

}  // namespace sluice

// What an engine asks of a device: how many rows, sequences and pages, as far as the budget allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/experts/expert_places.h"
#include "engine/experts/held_weights.h"
#include "graph/program.h"
#include "graph/step.h"

namespace sluice {

// What the engine needs of a tower (model/tower.h).
struct TowerModel {
  ProgramKind kind{};
  Program program;
  const WeightSource* weights = nullptr;  // outlives the engine
};

// What the engine needs of a model.
struct TextModel {
  Program program;
  const WeightSource* weights = nullptr;  // outlives the engine
  uint32_t vocabulary = 0;
  uint32_t context = 0;                      // positions that it was made for
  std::vector<int32_t> suppressed = {};      // tokens never to be sampled
  std::function<std::string()> digest = {};  // names the model in saved states
  std::vector<TowerModel> towers = {};
  uint32_t uncut_rows = 0;  // the most rows of a picture that sees ahead, which one step must hold
  WeightFiles files = {};   // to read experts from
};

// Of a model that is copied into it, since that keeps the weights. `hidden`: as TextOptions has it.
Result<TextModel> text_model(const Model& model, bool hidden);
WeightFiles weight_files(const Model& model);

// Indices of what a text program must have.
struct TextPorts {
  uint32_t tokens = 0, wanted = 0;  // inputs
  ValueId logits = kNone, sample = kNone;
  ValueId hidden = kNone;  // only of a program that feeds a draft head
  // Inputs of a model with towers: for each row -1 or its row of media_rows; the rows of pictures and sounds; and,
  // where pictures see ahead, the last position that each row sees.
  std::optional<uint32_t> media = {}, media_rows = {}, last = {};
  uint32_t media_columns = 0;
};
Result<TextPorts> find_ports(const Program& program);

// Shape and format of each weight of the program, in its order.
Result<std::vector<PlacedShape>> placed_shapes(const Program& program, const WeightSource& weights);

// Rows of adjustments that any one sequence may need.
uint32_t adjustments_of_one(const TextModel& model);

struct Layout {
  uint32_t context = 0;
  StepMaxima maxima;
  std::vector<uint32_t> pages;  // by group
};
struct LayoutSize {
  uint32_t context = 0;
  uint64_t cache_positions = 0;
  uint32_t snapshots = 0;  // of groups with a window or slots, beside what sequences hold
};
Layout make_layout(const TextModel& model, const EngineOptions& options, const LayoutSize& size);

struct PlannedText {
  Layout layout;
  std::unique_ptr<Plan> plan;
  Status fits{};  // into what the budget has left
};
struct PlacedText {
  Layout layout;
  std::string numerics_id;
  std::vector<uint64_t> page_bytes;   // by group
  std::unique_ptr<HeldWeights> held;  // null: the runner's weights are the model's
  std::unique_ptr<Runner> runner;
};

// A program as it is planned where experts are fetched: time to read them, and guesses of the next.
Program streaming_program(Program program);
// As many as EngineOptions::experts.bytes has room for where the device keeps them, at most all.
Result<ExpertSlots> expert_slots(const ExpertPlaces& places, const TextModel& model, const Device& device,
                                 const Budget& budget, const EngineOptions& options);

// Plans `model`. Where options leave the size open it shrinks - snapshots, then sequences' room, then the context -
// until the budget takes it; rather than that, weights are not repacked. The smallest, where nothing fits.
Result<PlannedText> plan_text(const TextModel& model, const Device& device, const Budget& budget,
                              const EngineOptions& options, const ExpertSlots& slots);
// Plans and places `model`, which stays where it is as long as the runner lives.
Result<PlacedText> place_text(const TextModel& model, Device& device, Budget& budget, const EngineOptions& options,
                              const ExpertSlots& slots = {});

}  // namespace sluice

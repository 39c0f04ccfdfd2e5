// An engine's layout on a device: rows, sequences and pages, as many as the budget allows.
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

// The parts of a tower that the engine needs (model/tower.h).
struct TowerModel {
  ProgramKind kind{};
  Program program;
  const WeightSource* weights = nullptr;  // outlives the engine
};

// The parts of a model that the engine needs.
struct TextModel {
  Program program;
  const WeightSource* weights = nullptr;  // outlives the engine
  uint32_t vocabulary = 0;
  uint32_t context = 0;                      // positions that the model was made for
  std::vector<int32_t> suppressed = {};      // tokens never to be sampled
  std::function<std::string()> digest = {};  // names the model in saved states
  std::vector<TowerModel> towers = {};
  uint32_t uncut_rows = 0;  // the most rows of a picture that sees ahead, which one step must hold
  WeightFiles files = {};   // to read experts from
};

// The TextModel keeps a copy of `model`, which owns the weights. `options`: of its program.
Result<TextModel> text_model(const Model& model, const TextOptions& options = {});
// The program's options for an engine with these options.
TextOptions text_options(const EngineOptions& options);
WeightFiles weight_files(const Model& model);

// Indices of a text program's inputs and outputs.
struct TextPorts {
  uint32_t tokens = 0, wanted = 0;  // inputs
  ValueId logits = kNone, sample = kNone;
  // Inputs of a model with towers: for each row -1 or its row of media_rows; the rows of pictures and sounds; if
  // pictures see ahead, the last position that each row sees; if their rows count by time, height and width, these
  // three numbers of each row (coordinates.h).
  std::optional<uint32_t> media = {}, media_rows = {}, last = {}, coordinates = {};
  uint32_t media_columns = 0;
  std::optional<uint32_t> adapter_slots = {}, adapter_scales = {};  // inputs of a program with adapters
};
Result<TextPorts> find_ports(const Program& program);
// Its inputs alone, for a program without logits.
Result<TextPorts> find_input_ports(const Program& program);

inline constexpr uint32_t kSnapshotSpacing = 512;  // positions between snapshots within a long text

// Whether it keeps states in slots.
bool keeps_slots(const Program& program);

// Whether automatic drafts are left out where memory is short, since each guess takes a slot more.
bool may_leave_drafts(const EngineOptions& options, const Program& program);

// Shape and format of each of the program's weights, in the program's order.
Result<std::vector<PlacedShape>> placed_shapes(const Program& program, const WeightSource& weights);

// The rows of each leased table that lie in memory.
uint32_t leased_rows(const EngineOptions& options, const Program& program);

// Rows of adjustments that any one sequence may need.
uint32_t adjustments_of_one(const TextModel& model);

struct Layout {
  uint32_t context = 0;
  uint32_t prompt_chunk = 0;
  uint32_t drafts = 0;  // tokens that a sequence may guess in a step; 0: nothing is drafted
  StepMaxima maxima;
  std::vector<uint32_t> pages;  // by group
};
struct LayoutSize {
  uint32_t context = 0;
  uint64_t cache_positions = 0;
  uint32_t snapshots = 0;  // for which groups with a window or slots have room beside that of sequences
  bool drafts = true;      // whether automatic drafts have slots, where states are kept in slots
};
Layout make_layout(const TextModel& model, const EngineOptions& options, const LayoutSize& size);

struct PlannedText {
  Layout layout;
  std::unique_ptr<Plan> plan;
  Status fits{};  // whether the budget has room for the plan
};
struct PlacedText {
  Layout layout;
  std::string numerics_id;
  std::vector<uint64_t> page_bytes;   // by group
  std::unique_ptr<HeldWeights> held;  // null: the runner's weights are the model's
  std::unique_ptr<Runner> runner;
};

// The program for streamed experts: experts come as late as they can, and each layer guesses the next layer's experts.
Program streaming_program(Program program);
// As many slots as fit into EngineOptions::experts.bytes in the form that the device keeps; at most one an expert.
Result<ExpertSlots> expert_slots(const ExpertPlaces& places, const TextModel& model, const Device& device,
                                 const Budget& budget, const EngineOptions& options);

// Of the host's buffers for a step, which the engine reserves beside the plan: what goes in and what was sampled.
uint64_t step_bytes(const TextModel& model, const StepMaxima& maxima);

// Plans `model`. Automatic drafts that take slots are left out where experts are streamed. If options leave sizes open,
// it leaves such drafts out, then reduces snapshots, then cache per sequence, then context, until the plan fits the
// budget beside EngineOptions::media. Before it reduces a size, it tries it without repacked weights. If
// nothing fits, it halves a prompt chunk of more than kUsualPromptRows. At last the smallest plan is returned.
Result<PlannedText> plan_text(const TextModel& model, const Device& device, const Budget& budget,
                              const EngineOptions& options, const ExpertSlots& slots);
// Plans and places `model`, which must not move while the runner lives.
Result<PlacedText> place_text(const TextModel& model, Device& device, Budget& budget, const EngineOptions& options,
                              const ExpertSlots& slots = {});

}  // namespace sluice

// MemoryPlan: the memory that a model needs with given options, computed before anything is loaded. It also says
// whether all experts fit within the limit or must be streamed.
#pragma once

#include <memory>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/adapters/adapter_slots.h"
#include "engine/engine.h"
#include "engine/experts/row_store.h"
#include "engine/plan/layout.h"

namespace sluice {

// Sizes of the routed experts.
struct ExpertRoom {
  uint32_t layers = 0, experts = 0, used = 0;  // layers with experts; experts of a layer; of them, used by a token
  uint64_t bytes = 0;                          // of all experts in memory
  uint64_t slot_bytes = 0;                     // of one expert in a slot; 0: experts cannot be streamed
  uint64_t read_bytes = 0;                     // of one expert in the file
  uint64_t reads = 1;                          // that bring one expert

  uint64_t count() const { return uint64_t{layers} * experts; }
};

struct MemoryPlan {
  // What `model` reads through: adapters, and rows of leased tables; or null. They outlive it.
  std::unique_ptr<AdapterSlots> adapters;
  std::unique_ptr<RowStore> rows;
  std::unique_ptr<const TextModel> model;
  Domain domain = Domain::host;  // of the device's memory, to which `limit` applies
  uint32_t context = 0;
  uint32_t prompt_chunk = 0;
  Repack repack{};                // that of the options, or never
  DraftKind draft{};              // that of the options, or none
  std::vector<MemoryLine> lines;  // everything but the experts and media
  std::vector<MemoryLine> media;  // EngineOptions::media
  uint64_t tables = 0;            // bytes of tables that `embed` reads; leased ones stay in the file
  ExpertRoom experts;
  uint64_t held = 0;  // bytes of the domain that others hold, with the reserve
  uint64_t limit = 0;
  uint64_t floor = 0;  // bytes needed with the shortest chunks and no snapshots

  // Bytes of the domain: without experts; with the least slots (a token's experts of one layer); with all experts.
  uint64_t dense() const;
  uint64_t needed() const { return dense() + (experts.slot_bytes == 0 ? experts.bytes : least_slots()); }
  uint64_t recommended() const { return dense() + experts.bytes; }
  bool streams() const { return experts.slot_bytes != 0 && recommended() > limit; }
  // Memory for slots if experts are streamed; else 0.
  uint64_t slot_memory() const { return streams() && limit > dense() ? limit - dense() : 0; }
  uint64_t slots() const;

 private:
  uint64_t least_slots() const { return experts.used * experts.slot_bytes; }
};

// Rows of a prompt step that suit the device, where no answer is generated meanwhile. A program with states in slots
// has no more than between two snapshots, at which its steps end anyway.
uint32_t suited_chunk(const DeviceInfo& device, const Program& program);

// Finds sizes that fit, where options leave them open (plan_text()). Automatic drafts that take slots are left out
// before experts are streamed or anything else is reduced. If the plan still does not fit, weights are not
// repacked, and then the prompt chunk is halved, down to kUsualPromptRows even before experts are streamed; streamed
// experts are then read for fewer tokens at once. At last all sizes are the smallest, so every limit from the floor on
// works. `files`: those of the model's checkpoint; `limit`: of the memory in which the device keeps weights.
Result<MemoryPlan> plan_memory(const Model& model, const WeightFiles& files, const Device& device, const Budget& budget,
                               uint64_t limit, const EngineOptions& options);
// Fails with a list of what needs memory if the plan does not fit the limit.
Status check_floor(const MemoryPlan& plan);

}  // namespace sluice

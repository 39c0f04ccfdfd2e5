// What a model would take of memory with given options, before anything of it is loaded; and whether its experts find
// room in what a bound leaves, or are to be read as they are chosen.
#pragma once

#include <memory>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/experts/row_store.h"
#include "engine/plan/layout.h"

namespace sluice {

// Experts that are routed to.
struct ExpertRoom {
  uint32_t layers = 0, experts = 0, used = 0;  // experts of a layer; by a token
  uint64_t bytes = 0;                          // of all of them, where they lie
  uint64_t slot_bytes = 0;                     // of one that is read into a slot; 0: none can be
  uint64_t read_bytes = 0;                     // of one in the file
  uint64_t reads = 1;                          // that bring one

  uint64_t count() const { return uint64_t{layers} * experts; }
};

struct MemoryPlan {
  std::unique_ptr<RowStore> rows;  // of tables that are leased, or null; before the model, which reads through it
  std::unique_ptr<const TextModel> model;
  Domain domain = Domain::host;  // of the device's memory, whose limit this is about
  uint32_t context = 0;
  uint32_t prompt_chunk = 0;
  Repack repack{};                // as options have it, or never
  std::vector<MemoryLine> lines;  // all but the experts
  uint64_t tables = 0;            // of which rows are read: they stay in the file, and those of `rows` count
  ExpertRoom experts;
  uint64_t held = 0;  // of that memory by others, the reserve among them
  uint64_t limit = 0;
  uint64_t floor = 0;  // what is needed with the shortest chunks and no snapshots

  // Of that memory: all but experts; with as many slots as a token has experts in a layer; with all of them.
  uint64_t dense() const;
  uint64_t needed() const { return dense() + (experts.slot_bytes == 0 ? experts.bytes : least_slots()); }
  uint64_t recommended() const { return dense() + experts.bytes; }
  bool streams() const { return experts.slot_bytes != 0 && recommended() > limit; }
  // For slots, where experts are to be read as they are chosen; else 0.
  uint64_t slot_memory() const { return streams() && limit > dense() ? limit - dense() : 0; }
  uint64_t slots() const;

 private:
  uint64_t least_slots() const { return experts.used * experts.slot_bytes; }
};

// Sizes that options leave open are those that fit, or else the smallest; so is the prompt chunk, which halves until
// the rest fits, at the price of reading experts for fewer tokens at once; then weights are not repacked, and at last
// all is the smallest: from the floor on, every limit will do. `files`: those of the model's checkpoint; `limit`: the
// budget's of the memory that the device keeps weights in.
Result<MemoryPlan> plan_memory(const Model& model, const WeightFiles& files, const Device& device, const Budget& budget,
                               uint64_t limit, const EngineOptions& options);
// out_of_memory with who needs what, where the limit is below the floor.
Status check_floor(const MemoryPlan& plan);

}  // namespace sluice

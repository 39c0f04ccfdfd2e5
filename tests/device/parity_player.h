// Plays a case (graph/cases.h) on a device: makes its data, lays out its pages, fills its steps, collects its outputs.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "graph/cases.h"
#include "slot_filler.h"

namespace sluice {

// One row of a step, by what its data depend on.
struct CaseRow {
  uint32_t sequence = 0;
  uint32_t position = 0;
  uint32_t take = 0;
};
std::vector<CaseRow> rows_of(const CaseStep& step);
std::vector<CaseRow> rows_of(const CaseStep& step, Symbol symbol);
std::vector<CaseRow> rows_of(const CaseStep& step, const Extent& extent);
// Of the symbols that the case's program has.
SymbolCounts counts_of(const OpCase& one, const CaseStep& step);

// What an f32 input of the case has in that row.
std::vector<float> input_row(const OpCase& one, uint32_t input, const CaseRow& row);

// Of its weights, as a plan is asked for.
std::vector<PlacedShape> placed_shapes(const OpCase& one);

// The weights of a case, encoded in its formats. Every second one begins at an odd address and has gaps between rows,
// as slices of mapped tensors may.
class CaseWeights : public WeightSource {
 public:
  explicit CaseWeights(const OpCase& one);
  Result<TensorSource> find(const std::string& name) const override;

 private:
  std::map<std::string, TensorSource> sources_;
};

// The 32-bit words of each value read from a step, in the order of CasePlayer::reads.
using StepOutputs = std::vector<std::vector<uint32_t>>;

enum class Poison { none, last_row, all };  // f32 inputs that are NaN

struct PlayerOptions {
  bool traced = false;
  uint32_t slots = 0;  // for experts, filled as they are missing; 0: all are at hand
  uint32_t seed = 0;   // of the order in which they come
};

class CasePlayer {
 public:
  // Plans and places; a failure is a failure of the test. Case and weights outlive the player.
  CasePlayer(const OpCase& one, const CaseWeights& weights, Device& device, Arithmetic arithmetic,
             const PlayerOptions& options = {});

  // The program's outputs; of a traced player its names.
  const std::vector<NamedValue>& reads() const { return traced_ ? case_.program.names : case_.program.outputs; }

  // Leaves NaN wherever a step can: activations, outputs, pages.
  void poison();
  StepOutputs play(const CaseStep& step, TokenClass token_class, Poison poison = Poison::none);
  Completion play_looking(const CaseStep& step, StepOutputs* outputs);  // last row NaN, find_non_finite

  const SlotFiller& filler() const { return *filler_; }  // of a player with slots

  // Moves the state to other pages of this runner, or of `to`, with copy_page or with read_page and write_page.
  void move_pages();
  void move_pages_to(CasePlayer& to);

 private:
  void fill(const CaseStep& step, TokenClass token_class, Poison poison);
  void fill_rows(const CaseStep& step);
  void fill_pages(const CaseStep& step);
  void fill_input(uint32_t input, const CaseStep& step, Poison poison);
  void fill_slots(const CaseRun& run, std::span<int32_t> table) const;
  int32_t page(uint32_t sequence, uint32_t number) const;
  bool is_slots(uint32_t group) const { return case_.program.groups[group].kind == StateKind::slots; }
  uint32_t used(uint32_t group) const { return is_slots(group) ? slots_ : pages_; }
  Completion wait(Ticket ticket);
  StepOutputs run(const StartOptions& options, Completion* completion);

  const OpCase& case_;
  const bool traced_;
  Budget budget_;
  std::map<uint32_t, uint32_t> first_page_;  // of a sequence, before they are scattered
  uint32_t pages_ = 0;                       // of each paged group, in use; as many lie behind them for move_pages
  std::map<uint32_t, uint32_t> first_slot_;  // of a sequence: one for its state at each position
  uint32_t slots_ = 0;                       // likewise, of the slot group
  bool moved_ = false;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<SlotFiller> filler_;
  std::unique_ptr<StepBuffer> step_;
  std::vector<uint64_t> page_bytes_;
};

}  // namespace sluice

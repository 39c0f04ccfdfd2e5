// The adapters of an engine: the factors of each slot as weights of the program (graph/ops/adapter.h).
//
// A slot holds a sum of adapters. Several adapters with their scales are one of a higher rank: the rows of their A
// stand behind one another, and the columns of their B, which their scales have multiplied. One adapter alone keeps its
// factors, and its rows are scaled in the step, so one slot serves every scale of it.
//
// There are as many slots as the engine was opened for. A request holds the slot of its sum from its first step to its
// end. A sum without a slot takes the one that is held by nobody and was used longest ago (AdapterRoom).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "engine/options.h"
#include "graph/ops/adapter.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace sluice {

// The row of a request in the step's inputs. With no adapter it has the bits of a program without the operand.
struct AdapterRow {
  int32_t slot = 0;  // 0: none, or 1 + a slot
  float scale = 0;
};

// The sum without adapters of scale 0.
AdapterSum acting(const AdapterSum& sum);

// Stands before the model's own weights.
class AdapterSlots final : public WeightSource {
 public:
  // What a program that can take all of these sums, and others that fit the room, is recorded with.
  static AdapterOptions options(const std::vector<AdapterSum>& sums, const AdapterRoom& room = {});
  // The sums lie in the first slots. Takes no memory yet; null without slots. Fails with one sentence when an adapter
  // changes a weight that takes none in `program`. `weights` outlive it.
  static Result<std::unique_ptr<AdapterSlots>> plan(const Program& program, const WeightSource& weights,
                                                    std::vector<AdapterSum> sums, const AdapterRoom& room = {});
  uint64_t bytes() const;  // of memory that it takes
  // Reads the factors; before find() is asked for what a device is to use.
  void take();

  Result<TensorSource> find(const std::string& name) const override;

  // Fails with one sentence when no slot has the sum.
  Result<AdapterRow> row_of(const AdapterSum& sum) const;
  // Fails with one sentence when the sum fits no slot: its rank, its weights or the formats of its factors.
  Status check(const AdapterSum& sum) const;
  // Holds a slot with the sum, which check() has let pass; filled if need be, so only while no step runs. None: all
  // slots are held, and one will be released.
  std::optional<AdapterRow> hold(const AdapterSum& sum, const Program& program, Runner& runner);
  void release(const AdapterRow& row);
  // The sums in slots, the last used first.
  std::vector<AdapterSum> sums() const;
  // Empties the slots whose sum has the adapter and that nobody holds.
  void drop(const Adapter& adapter);
  // Names a sum in histories and states: sums of the same name give the same bits. "" for none.
  std::string name_of(const AdapterSum& sum) const;

 private:
  // One factor of a weight, of all slots: slots x experts x [rows, columns].
  struct Factor {
    std::string weight;  // that the factors change
    bool is_embedding = false, is_b = false;
    WeightShape shape;
    Format format{};
    std::shared_ptr<std::vector<std::byte>> memory = {};
  };

  struct Slot {
    AdapterSum sum;  // empty: none
    uint32_t holders = 0;
    uint64_t last_used = 0;
  };

  AdapterSlots(const WeightSource& weights, std::vector<AdapterSum> sums, const AdapterRoom& room);
  void add_factor(const WeightDecl& decl, std::string weight, bool is_embedding, bool is_b, bool has_room);
  Status check_weights(const AdapterSum& sum) const;
  Status check_formats(const AdapterSum& sum) const;
  std::optional<size_t> slot_of(const AdapterSum& sum) const;
  std::optional<size_t> free_slot() const;
  void refill(size_t slot, const Program& program, Runner& runner);
  void fill(Factor& factor, size_t slot) const;
  static uint64_t bytes_of(const Factor& factor);

  const WeightSource* weights_;
  std::vector<Slot> slots_;
  uint64_t clock_ = 0;
  uint32_t rank_ = 0;
  std::unordered_map<std::string, Factor> factors_;  // by name in the program
};

}  // namespace sluice

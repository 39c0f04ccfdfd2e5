// A device: plans programs, places weights, plays steps. Each implementation has a folder below and knows no other;
// only src/app names one.
//
//   Device::plan    layouts and bytes for given shapes and maxima; pure: needs no weights and allocates nothing large
//   Device::place   takes memory from the Budget, makes the weights ready, returns a Runner
//   Runner::start   starts one step; Runner::poll says when it is done. Nothing here waits for hardware.
//
// A Runner belongs to one thread at a time. The step and all read targets must not change until the ticket is done. A
// device may also measure its speed (measured.h), and train factors in its own memory (trained_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/trained_memory.h"
#include "graph/program.h"
#include "graph/step.h"
#include "graph/weights.h"

namespace sluice {

// exact: weights decoded to f32, and activations, sums and caches in f32. fast: the device's fastest arithmetic.
enum class Arithmetic : uint8_t { exact, fast };

inline constexpr uint32_t kUsualPromptRows = 512;  // of a prompt step

struct DeviceInfo {
  std::string name{};                       // as --device takes it: "reference", "cpu"
  std::string description{};                // "AMD EPYC, AVX-512 VNNI, 2 threads"
  Domain memory = Domain::host;             // of weights, caches and slots
  uint64_t memory_bytes = 0;                // of the device's own memory; 0: unknown
  bool shares_memory = false;               // the device's memory is part of the host's
  uint32_t prompt_rows = kUsualPromptRows;  // of a prompt step that suit the device: a multiple of 64
  bool classes_bit_equal =
      false;                     // prompt and decode rows give the same bits, so prefixes match whatever their classes
  bool expert_slots = false;     // plan() takes PlanRequest::expert_slots
  bool plays_in_pieces = false;  // poll() computes steps that were started with StartOptions::in_pieces
  bool trains_factors = false;   // plan() takes PlanRequest::trained
  // Ops that the device lacks on purpose, and "embed.adapter", "linear.adapter", "experts.adapter" or
  // "attention.adapter" if it lacks that operand. plan() refuses a program with one of them.
  std::vector<std::string> missing{};
};

// Shape and format of each weight of the program, in the program's order.
struct PlacedShape {
  WeightShape shape{};
  Format format{};
  bool in_parts = false;  // TensorSource::parts
  uint64_t bytes = 0;     // as stored, parts included
};

// Slots for streamed experts. A slot takes one expert of any op `experts` of the program.
struct ExpertSlots {
  uint32_t count = 0;  // 0: experts are used where the WeightSource has them
  uint64_t bytes = 0;  // of a slot into which files are read; a multiple of kSlotAlignment, like the slot's address
};
inline constexpr uint64_t kSlotAlignment = 4096;

// Whether a device may keep a repacked copy of weights beside the stored ones. first: made before the first step.
// behind: made slice by slice before decode steps, so that no answer waits for it. Repacking changes no bit.
enum class Repack : uint8_t { never, behind, first };

struct PlanRequest {
  const Program* program = nullptr;  // outlives plan and runner
  Arithmetic arithmetic = Arithmetic::fast;
  StepMaxima maxima{};            // for both classes
  std::vector<uint32_t> pages{};  // by group: pages in the pool
  std::vector<PlacedShape> weights{};
  ExpertSlots expert_slots{};
  std::optional<Format> cache{};  // of elements of keys, values and latents; none: the arithmetic's own
  Repack repack = Repack::never;
  // In fast arithmetic, activations may be rounded to bf16 where they meet bf16 weights, and so may queries, keys,
  // values and probabilities of attention over rows without positions. Towers ask for it. In a text a rounding can
  // change which experts a router chooses.
  bool round_to_bf16 = false;
  // Every step is of whole sequences, of which most rows are wanted: training. No step is of class decode.
  bool whole_sequences = false;
  // Factors that the device trains by itself: Runner::trained_memory(). None of them is an embedding table.
  std::vector<TrainedFactor> trained{};
  bool traced = false;  // keep every named value to the end of a step; ops that would hide one are not fused
};

class Plan {
 public:
  virtual ~Plan() = default;
  virtual std::vector<MemoryLine> memory() const = 0;
  virtual uint64_t page_bytes(uint32_t group) const = 0;  // of a page with all states of the group
  // Bytes of the largest expert on a device that keeps experts in a form of its own; 0: they stay as stored.
  virtual uint64_t expert_bytes() const { return 0; }
  // Device, instruction set, arithmetic, kernel version, cache formats: part of every snapshot's key.
  virtual std::string numerics_id() const = 0;
};

// Rows of a value to read back after a step.
struct ReadRequest {
  ValueId value = kNone;        // an output; in a traced plan any named value
  std::span<std::byte> into{};  // count(symbol) * columns elements of 4 bytes
};

// The first op whose result is not finite.
struct NonFinite {
  uint32_t op = 0;
  int32_t layer = -1;
  uint32_t row = 0;    // of the step, even if the result has wanted rows
  std::string what{};  // "rms_norm" ...
};

struct ExpertId {
  uint32_t op = 0;  // of the program: an `experts`
  uint32_t expert = 0;
  auto operator<=>(const ExpertId&) const = default;
};
// The experts of one op that a step's rows chose, ascending.
struct ExpertUse {
  uint32_t op = 0;
  std::vector<uint32_t> experts{};
};

struct Completion {
  Ticket ticket = 0;
  Status status{};
  // The step has stopped because chosen or guessed experts of one op are in no slot. It may be resumed once some of
  // `missing` are in slots, or if `missing` is empty; it then stops again for the rest. The next start() drops a step
  // that was not resumed.
  bool stopped = false;
  std::vector<ExpertId> missing{};
  std::vector<ExpertUse> used{};          // of ops that were reached since the step's last completion
  std::optional<ExpertUse> guessed{};     // the guess for a later op; only of steps started with guess_experts
  std::optional<NonFinite> non_finite{};  // only of steps started with find_non_finite
};

struct StartOptions {
  bool find_non_finite = false;  // check every op's result; slower
  bool guess_experts = false;    // play the program's guesses and report them
  // On a device that computes within start(): each poll() computes one piece of the step, so that the caller's other
  // work goes on between them. Nothing else of the runner is used until the step is done. Pieces change no bit.
  bool in_pieces = false;
  bool add_gradients = false;  // to those of trained_memory()
};

// Gate, up and down.
inline constexpr uint32_t kExpertParts = 3;

// The slots of a runner that was planned with slots. Slots may be filled and released while no step runs or while a
// step has stopped. Experts of the stopped op that are in slots must stay there until resume() has computed them.
//
// `pieces`, below: the bytes of an expert's gate, up and down, each in the order of expert_pieces().
class ExpertMemory {
 public:
  virtual ~ExpertMemory() = default;
  // A slot's bytes if it lies in the host's memory, so that files are read into it; else empty.
  virtual std::span<std::byte> slot_memory(uint32_t slot) = 0;
  // For slots outside the host's memory: packs one part of an expert into the device's form, at its place in `into`,
  // which has packed_bytes() for all parts. May be called on any thread at any time.
  virtual uint64_t packed_bytes() const { return 0; }
  virtual void pack(ExpertId /*expert*/, uint32_t /*part*/, std::span<const std::byte* const> /*pieces*/,
                    std::span<std::byte> /*into*/) const {}
  // Gives the slot to an expert. If slot_memory(slot) is not empty, `pieces` lie in it and must stay. Otherwise
  // `pieces` is the one result of pack(), which may be freed after the call.
  virtual Ticket fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) = 0;
  virtual void release(uint32_t slot) = 0;  // the slot then has no expert
};

class MeasuredDevice;
class MeasuredRunner;

class Runner {
 public:
  virtual ~Runner() = default;

  virtual Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads,
                       const StartOptions& options = {}) = 0;
  // Pages of states: copy within the device, read to memory, write from memory; spans of page_bytes(group).
  virtual Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) = 0;
  virtual Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) = 0;
  virtual Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) = 0;
  // The pieces of a page that lies in the host's memory, in the order of read_page(); else none. They may be read and
  // written while nothing runs.
  virtual std::vector<std::span<std::byte>> page_memory(uint32_t /*group*/, uint32_t /*page*/) { return {}; }

  // The bytes of these matrices of a weight have changed where the WeightSource has them. A device with a copy of its
  // own makes it again before its next step. Only while no step runs.
  virtual void reload(WeightId /*weight*/, uint32_t /*first*/, uint32_t /*matrices*/) {}

  virtual ExpertMemory* expert_memory() { return nullptr; }  // null: planned without slots
  virtual void resume(Ticket /*stopped*/) {}                 // continues a step that has stopped

  virtual TrainedMemory* trained_memory() { return nullptr; }  // null: planned without trained factors

  virtual MeasuredRunner* measured() { return nullptr; }  // device/measured.h; null: it measures nothing

  // The next finished ticket or stopped step, in the order of starting; nothing while the device is still at work.
  virtual std::optional<Completion> poll() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;
  virtual Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const = 0;
  virtual Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                                Budget& budget) = 0;
  virtual MeasuredDevice* measured() { return nullptr; }  // device/measured.h; null: it measures nothing
};

}  // namespace sluice

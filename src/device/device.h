// A device: plans programs, places weights, plays steps. Implementations lie in the folders below, none of which knows
// another; only src/app names one.
//
//   Device::plan    pure: layouts and bytes for given shapes and maxima; no weights, no allocation of note
//   Device::place   takes memory from the Budget, makes the weights ready, gives a Runner
//   Runner::start   one step; Runner::poll says when it is done. Nothing here blocks on hardware.
//
// A Runner belongs to one thread at a time. The step and all read targets must stay untouched until the ticket is done.
// What a device says of its speed is an optional face of it (measured.h).
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
#include "graph/program.h"
#include "graph/step.h"
#include "graph/weights.h"

namespace sluice {

// exact: weights decoded to f32, f32 activations and sums, caches of f32 and nothing else. fast: what the device does
// best.
enum class Arithmetic : uint8_t { exact, fast };

struct DeviceInfo {
  std::string name{};              // as --device takes it: "reference", "cpu"
  std::string description{};       // "AMD EPYC, AVX-512 VNNI, 2 threads"
  Domain memory = Domain::host;    // where weights, caches and slots lie
  uint64_t memory_bytes = 0;       // of a device's own memory; 0: it does not say
  bool shares_memory = false;      // which lies in the host's
  bool classes_bit_equal = false;  // prompt and decode rows give the same bits: a prefix is reused whatever its classes
  bool expert_slots = false;       // plans with PlanRequest::expert_slots
  // Ops that the device lacks on purpose, and "linear.adapter" where it lacks that operand; plan refuses a program with
  // one.
  std::vector<std::string> missing{};
};

// Shape and format of each weight of the program, in the program's order.
struct PlacedShape {
  WeightShape shape{};
  Format format{};
  bool in_parts = false;  // TensorSource::parts
  uint64_t bytes = 0;     // as stored, parts included
};

// Room for experts that do not all lie in memory: each slot takes one expert, of any op `experts` of the program.
struct ExpertSlots {
  uint32_t count = 0;  // 0: every expert lies where the WeightSource has it
  uint64_t bytes = 0;  // of a slot as files are read into it: a multiple of kSlotAlignment, as its address is
};
inline constexpr uint64_t kSlotAlignment = 4096;

// Whether a device may keep weights in a form of its own beside the stored ones, which costs memory once more: made
// before the first step, or, so that no answer waits for it, a slice before each decode step. Changes no bit.
enum class Repack : uint8_t { never, behind, first };

struct PlanRequest {
  const Program* program = nullptr;  // outlives plan and runner
  Arithmetic arithmetic = Arithmetic::fast;
  StepMaxima maxima{};            // of both classes
  std::vector<uint32_t> pages{};  // by group: pages of state to keep
  std::vector<PlacedShape> weights{};
  ExpertSlots expert_slots{};
  std::optional<Format> cache{};  // of elements of keys, values and latents; none: what the arithmetic takes
  Repack repack = Repack::never;
  bool traced = false;  // keep every named value to the end of a step (unfuses what hides one)
};

class Plan {
 public:
  virtual ~Plan() = default;
  virtual std::vector<MemoryLine> memory() const = 0;
  virtual uint64_t page_bytes(uint32_t group) const = 0;  // of one page, all states of the group together
  // Of one expert, the largest, on a device that keeps all in a form of its own; 0: they are as they are stored.
  virtual uint64_t expert_bytes() const { return 0; }
  // Device, instruction set, arithmetic, kernel version, cache formats: part of every snapshot's key.
  virtual std::string numerics_id() const = 0;
};

using Ticket = uint64_t;

// Rows of a value to read back after a step.
struct ReadRequest {
  ValueId value = kNone;        // an output; in a traced plan any named value
  std::span<std::byte> into{};  // count(symbol) * columns elements of 4 bytes
};

// The first op whose result is not finite.
struct NonFinite {
  uint32_t op = 0;
  int32_t layer = -1;
  uint32_t row = 0;    // of the step, also where the result has a row for each wanted one
  std::string what{};  // "rms_norm" ...
};

struct ExpertId {
  uint32_t op = 0;  // of the program: an `experts`
  uint32_t expert = 0;
  auto operator<=>(const ExpertId&) const = default;
};
// What a step wants of one op's experts: those that its rows chose, ascending.
struct ExpertUse {
  uint32_t op = 0;
  std::vector<uint32_t> experts{};
};

struct Completion {
  Ticket ticket = 0;
  Status status{};
  // The step is not done: experts of one op are in no slot, or some of those guessed. Once some of `missing` are, or
  // there are none, it may be resumed, and stops again for the rest. Steps that are not resumed end with the next
  // start().
  bool stopped = false;
  std::vector<ExpertId> missing{};
  std::vector<ExpertUse> used{};          // of ops that were reached since the step's last completion
  std::optional<ExpertUse> guessed{};     // what a coming op may choose; only of steps started with guess_experts
  std::optional<NonFinite> non_finite{};  // only of steps started with find_non_finite
};

struct StartOptions {
  bool find_non_finite = false;  // look at every op's result; slower
  bool guess_experts = false;    // play the guesses of the program, and say what they give
};

// Gate, up and down.
inline constexpr uint32_t kExpertParts = 3;

// The slots of a runner that was planned with some. They are filled and released while no step is under way, or one has
// stopped; then what is there of its op's experts stays there until it has been resumed, which computes with them.
//
// `pieces`, below: the bytes of an expert's gate, up and down, each as expert_pieces() lists them.
class ExpertMemory {
 public:
  virtual ~ExpertMemory() = default;
  // Where a slot lies in the host's memory, so that files are read into it; empty where it lies elsewhere.
  virtual std::span<std::byte> slot_memory(uint32_t slot) = 0;
  // Where slots lie elsewhere: one part of an expert, in the form that it has there, at its place in `into`, which has
  // packed_bytes() for all of them. Any thread may do that, whatever others and the runner do meanwhile.
  virtual uint64_t packed_bytes() const { return 0; }
  virtual void pack(ExpertId /*expert*/, uint32_t /*part*/, std::span<const std::byte* const> /*pieces*/,
                    std::span<std::byte> /*into*/) const {}
  // From now on the slot is that expert's. `pieces`: in slot_memory(slot), where there is such, to stay there; else one
  // alone, which pack() made of all parts, and which may be forgotten afterwards.
  virtual Ticket fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) = 0;
  virtual void release(uint32_t slot) = 0;  // holds no expert any more
};

class MeasuredDevice;
class MeasuredRunner;

class Runner {
 public:
  virtual ~Runner() = default;

  virtual Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads,
                       const StartOptions& options = {}) = 0;
  // State pages: copy within the device, out to memory, in from memory; spans of page_bytes(group).
  virtual Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) = 0;
  virtual Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) = 0;
  virtual Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) = 0;
  // Where a page lies in the host's memory, piece by piece in the order of read_page(), to be read and written there
  // while nothing is under way; none where it lies elsewhere.
  virtual std::vector<std::span<std::byte>> page_memory(uint32_t /*group*/, uint32_t /*page*/) { return {}; }

  virtual ExpertMemory* expert_memory() { return nullptr; }  // null: planned without slots
  virtual void resume(Ticket /*stopped*/) {}                 // a step that lacked experts

  virtual MeasuredRunner* measured() { return nullptr; }  // device/measured.h; null: it says nothing of its speed

  // The next finished ticket or stopped step, in the order of starting; nothing while the device works on.
  virtual std::optional<Completion> poll() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;
  virtual Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const = 0;
  virtual Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                                Budget& budget) = 0;
  virtual MeasuredDevice* measured() { return nullptr; }  // device/measured.h; null: it says nothing of its speed
};

}  // namespace sluice

// Engine: one model's text program on one device, serving many sequences.
//
//   submit(request) -> RequestId;  step() until idle;  collect(id) takes what is new
//
// One scheduler serves chat, server and page. A step's batch has one class and ragged lengths. Chunks of prompts take
// turns with decode steps, fairly between sequences. A sequence's logits depend on its history alone (history.h).
//
// step() never waits for a disk. On a device that computes in start(), such as the CPU, it computes one step; on others
// it waits for nothing. While a request's kept state or table rows are read, other sequences step on. Only a step that
// stopped for missing experts holds up all, because it owns the device's arena. save(), load() and keep_state() wait.
// Not thread safe: one thread owns an Engine. Budget and device belong to the process and are handed in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/measured.h"
#include "engine/constraint.h"
#include "engine/history.h"
#include "engine/options.h"
#include "engine/sampling.h"
#include "graph/ops/sample.h"
#include "model/model.h"
#include "model/tower.h"

namespace sluice {

using SequenceId = uint64_t;
using RequestId = uint64_t;
inline constexpr SequenceId kNewSequence = 0;

struct Request {
  SequenceId sequence = kNewSequence;  // an idle sequence to go on from, or a new one
  bool keep_sequence = false;          // the sequence stays open, for another request, fork, truncate or save
  std::vector<int32_t> prompt;         // tokens given, appended to the history in the prompt class
  std::vector<MediaSpan> media;        // rows of pictures and sounds within `prompt`, ascending
  uint32_t max_tokens = 0;             // tokens to generate; 0: only compute the prompt
  std::vector<int32_t> stop_tokens;    // end the answer; they belong to the answer's tokens
  SamplingSettings sampling;
  std::shared_ptr<Constraint> constraint;  // of the answer's tokens; null: none
  // Adapters that act on all rows. They take a slot if none has their sum, and the request waits while all slots are
  // used. A sequence that was computed with others is computed again.
  AdapterSum adapters;
  // Measurements alone set these two. Recorded tokens take the place of the sampled ones, in order, as if the model had
  // written a known text; without guesses a step computes one token.
  std::vector<int32_t> recorded = {};
  bool may_guess = true;
  uint32_t choice = 0;              // number of this answer among several to one prompt: keys the random numbers
  std::vector<uint32_t> logits_at;  // indices into `prompt`, ascending, whose logits are wanted (verify, perplexity)
  std::vector<uint32_t>
      message_ends;  // indices into `prompt`: snapshots are kept below them for requests that begin alike
};

enum class Finish : uint8_t { running, stop_token, length, cancelled, failed };

// A request's new results since the last collect(). The counts are of the whole request.
struct Progress {
  SequenceId sequence = 0;
  Finish finish = Finish::running;
  std::optional<Error> failure;      // with Finish::failed: the sentence
  std::vector<SampleResult> tokens;  // new tokens in order
  std::vector<float> logits;         // new rows of Request::logits_at, vocabulary entries each
  uint32_t prompt_tokens = 0;        // of the whole history at submit
  uint32_t reused_tokens = 0;        // of prompt_tokens: those that were not computed again
  uint32_t restored_tokens = 0;      // of reused_tokens: those read from the state store for this request
  uint32_t computed_prompt_tokens = 0;
  uint32_t drafted = 0, accepted = 0;  // tokens
  uint32_t undrafted_steps = 0;        // decode steps that guesses would have slowed
};

enum class StepState : uint8_t { idle, in_flight, progressed };

// A picture or sound that requests name by its content.
struct MediaInput {
  MediaDigest content{};
  ProgramKind tower{};  // that makes its rows
  std::shared_ptr<const TowerInputs> inputs;
};

class Engine {
 public:
  // `device` and `budget` outlive the engine. Fails with the budget's sentence when a reservation does not fit.
  static Result<std::unique_ptr<Engine>> create(const Model& model, Device& device, Budget& budget,
                                                const EngineOptions& options);
  virtual ~Engine() = default;

  // Before a request that shows it. The engine keeps it while a sequence shows it, and longer while there is room;
  // given again it costs nothing.
  virtual Status give_media(MediaInput input) = 0;
  virtual Result<RequestId> submit(Request request) = 0;
  virtual StepState step() = 0;
  // For a step() that was in flight: waits until there may be more to do, some milliseconds at most.
  virtual void wait() = 0;
  virtual Result<Progress> collect(RequestId id) = 0;  // forgets a request that has finished
  virtual void cancel(RequestId id) = 0;               // acts between steps; the history keeps the tokens so far

  // Whether requests may name the adapters; if not, the sentence that submit() would fail with.
  virtual Status check_adapters(const AdapterSum& /*sum*/) const { return {}; }
  virtual std::vector<AdapterSum> adapters() const { return {}; }  // those in slots, the last used first
  virtual void drop_adapter(const Adapter& /*adapter*/) {}         // empties the slots that have it and nobody uses

  // For kept, idle sequences. save() and load() wait for the device.
  virtual Result<SequenceId> fork(SequenceId sequence) = 0;
  virtual Status truncate(SequenceId sequence, size_t tokens) = 0;
  virtual Status close(SequenceId sequence) = 0;
  virtual Result<History> history(SequenceId sequence) const = 0;
  virtual Status save(SequenceId sequence, const std::string& path) = 0;
  // save() for a host where nothing may wait. False until the device has brought the pages: call again. The file has
  // the sequence as it was at the first call. One save at a time.
  virtual Result<bool> save_without_waiting(SequenceId sequence, const std::string& path) = 0;
  // Refuses a wrong model, a wrong version and a damaged file. For another numerics id it sets `note`, and the tokens
  // are computed again.
  virtual Result<SequenceId> load(const std::string& path, std::string* note) = 0;
  // Writes the states of a kept, idle sequence to the state store, if there is one: at the ends of messages and
  // prompts, and at the sequence's end. Waits for disk and device. Failures become notes of the store.
  virtual void keep_state(SequenceId sequence) = 0;

  virtual uint32_t context() const = 0;
  virtual EngineStats stats() const = 0;
  virtual std::optional<ExpertStats> expert_stats() const = 0;  // none if experts are not streamed
  virtual std::optional<RowStats> row_stats() const = 0;        // none if no table rows are streamed
  // Experts in memory, the most used first; empty if experts are not streamed.
  virtual std::vector<HotExpert> hot_experts() const = 0;
  // While no request runs: takes in prefetched experts and starts more reads, without waiting. False: there is nothing
  // to read.
  virtual bool warm_up() = 0;
  virtual std::optional<DispatchCounts> dispatch_counts() const = 0;  // as the device has them
  virtual std::string numerics_id() const = 0;
};

}  // namespace sluice

// The engine's state and its way through a step; see engine.h for what it promises.
//
//   launch: admit, schedule, provide pages, fill the step, start   (engine_step.cpp)
//   land:   take results, advance sequences, end requests          (engine_step.cpp)
//   experts: read while a step has stopped for them                 (engine_step.cpp)
//   states: read by another thread before a request starts          (state/kept_states.h)
//   guesses: asked for before a step, results of those that stand taken one a turn (continuation.h)
//   rows that are not finite are played again to name the op that failed (diagnosis.h)
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/adapters/adapter_slots.h"
#include "engine/admission.h"
#include "engine/continuation.h"
#include "engine/diagnosis.h"
#include "engine/draft/draft_head.h"
#include "engine/experts/expert_store.h"
#include "engine/experts/row_store.h"
#include "engine/flight.h"
#include "engine/media/media.h"
#include "engine/plan/layout.h"
#include "engine/state/kept_states.h"
#include "engine/state/sequence_files.h"
#include "engine/step_fill.h"

namespace sluice {

// Null where no table is.
struct LeasedRows {
  std::unique_ptr<RowStore> store;
  Reservation reservation;
};

// Null without adapters.
struct LeasedAdapters {
  std::unique_ptr<AdapterSlots> slots;
  Reservation reservation;
};

class EngineImpl final : public Engine {
 public:
  // `model` was placed as `placed`; both move in together, the program itself stays where it is.
  EngineImpl(std::unique_ptr<TextModel> model, const TextPorts& ports, PlacedText placed, const DeviceInfo& device,
             Budget& budget, const EngineOptions& options);
  Status reserve_buffers();
  Status add_draft_head(DraftModel head, Device& device);
  Status add_expert_store(ExpertPlaces places, uint32_t slots);
  void add_adapters(LeasedAdapters leased);
  void add_rows(LeasedRows leased) { leased_ = std::move(leased); }
  void add_towers(Device& device);

  Status give_media(MediaInput input) override;
  Result<RequestId> submit(Request request) override;
  StepState step() override;
  void wait() override;
  Result<Progress> collect(RequestId id) override;
  void cancel(RequestId id) override;

  Status check_adapters(const AdapterSum& sum) const override;
  std::vector<AdapterSum> adapters() const override {
    return adapters_.slots ? adapters_.slots->sums() : std::vector<AdapterSum>();
  }
  void drop_adapter(const Adapter& adapter) override {
    if (adapters_.slots) adapters_.slots->drop(adapter);
  }

  Result<SequenceId> fork(SequenceId sequence) override;
  Status truncate(SequenceId sequence, size_t tokens) override;
  Status close(SequenceId sequence) override;
  Result<History> history(SequenceId sequence) const override;
  Status save(SequenceId sequence, const std::string& path) override;
  Result<bool> save_without_waiting(SequenceId sequence, const std::string& path) override;
  Result<SequenceId> load(const std::string& path, std::string* note) override;
  void keep_state(SequenceId sequence) override;

  uint32_t context() const override { return placed_.layout.context; }
  EngineStats stats() const override;
  std::optional<ExpertStats> expert_stats() const override {
    return store_ ? std::optional(store_->stats()) : std::nullopt;
  }
  std::optional<RowStats> row_stats() const override {
    return leased_.store ? std::optional(leased_.store->stats()) : std::nullopt;
  }
  std::vector<HotExpert> hot_experts() const override { return store_ ? store_->hottest() : std::vector<HotExpert>(); }
  bool warm_up() override;
  std::optional<DispatchCounts> dispatch_counts() const override {
    const MeasuredRunner* const measured = placed_.runner->measured();
    return measured == nullptr ? std::nullopt : measured->dispatch_counts();
  }
  std::string numerics_id() const override { return placed_.numerics_id; }
  Cache& cache() { return cache_; }
  const Continuation& continuation() const { return *continuation_; }

 private:
  using Clock = std::chrono::steady_clock;

  // engine.cpp
  Status check_request(const Request& request, size_t history_before) const;
  Status check_media(const Request& request) const;
  Result<OpenSequence*> sequence_for(const Request& request);
  Job make_job(Request request, SequenceId sequence, size_t history_before);
  void finish(Job& job, Finish how);
  void fail(Job& job, Error why);
  bool in_flight(RequestId id) const;

  // engine_step.cpp
  bool take_recalled();
  bool awaits_rows() const;
  bool has_rows(Job& job, const Portion& portion);
  bool has_media(Job& job, const Portion& portion);
  bool samples(const Job& job, const Portion& portion);
  bool has_mask(Job& job, const Portion& portion);
  bool is_shown(const MediaDigest& content) const;
  bool launch();
  std::vector<Pending> pending();
  std::vector<int32_t> guesses(const Job& job, const History& history);
  FlightPart flight_part(const Job& job, const Portion& portion);
  void start(Flight flight, std::span<const PageCopy> copies, StartOptions how);
  StepPart step_part(const FlightPart& part);
  void complete(const Completion& completion);
  bool is_near_the_end(const Flight& flight) const;
  bool fetch_experts(bool wait);
  void land(const Flight& flight);
  bool finite(const FlightPart& part) const;
  void accept(const FlightPart& part, TokenClass token_class, const EndedRows& ended);
  void take_logits(Job& job, const FlightPart& part);
  void put_recorded(const FlightPart& part);
  EndedRows ended_rows(const FlightPart& part) const;
  bool take_next_results();
  bool take_forced_tokens();
  void take_token(Job& job, const SampleResult& result);
  void diagnose_next();
  void end_diagnosis(const FlightPart& part, const std::optional<NonFinite>& found);
  void fail_all(const Flight& flight, const Error& why);
  void forget_sequence(SequenceId sequence);

  ComputedBy computed_by() const;

  std::unique_ptr<TextModel> model_;
  LeasedAdapters adapters_;  // weights of what is placed, as the next
  LeasedRows leased_;
  TextPorts ports_;
  PlacedText placed_;
  EngineOptions options_;
  Budget* budget_;

  Cache cache_;
  Board board_;  // its tables point into cache_
  Admission admission_;
  Schedule schedule_;
  StepBuffer step_;
  std::vector<SampleResult> results_;  // by wanted row
  std::vector<float> logits_;          // likewise; only of steps that give logits
  std::vector<Reservation> reserved_;

  PageFiles pages_;
  SequenceFiles files_;
  std::optional<KeptStates> states_;  // none: no state store
  std::optional<Media> media_;        // none: a model without towers
  std::optional<Flight> flight_;
  Diagnosis diagnosis_;
  EngineStats stats_;
  std::unique_ptr<Continuation> continuation_;
  std::unique_ptr<ExpertStore> store_;  // reads into the runner's memory: goes first
  Clock::duration decode_took_ = {};    // the last step
};

// The engine over any program, as tests with a fake device make it.
Result<std::unique_ptr<EngineImpl>> create_engine(TextModel model, Device& device, Budget& budget,
                                                  const EngineOptions& options,
                                                  std::optional<DraftModel> head = std::nullopt);

}  // namespace sluice

// Admission: decides which requests run, and which pages are freed when a pool is short.
//
// Requests start in the order of submission. A request starts when running requests leave enough pages for its prompt
// and all its new tokens. Running requests may still outgrow the pools together. Pages are then freed in this order:
// snapshots, idle sequences, a state that is being read from disk, the youngest running request. That request waits and
// is computed again in its classes, to the same bits. The oldest request always goes on, so all requests end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/jobs.h"
#include "engine/state/kept_states.h"

namespace sluice {

class Admission {
 public:
  // `sequences`: the most that run at once. Cache and board outlive it.
  Admission(Cache& cache, Board& board, uint32_t sequences) : cache_(&cache), board_(&board), sequences_(sequences) {}
  // The kept states in which a job's history is looked for before the job starts. They outlive it.
  void set_states(KeptStates& states) { states_ = &states; }
  // Holds a slot for the adapters of a job that starts; none: it must wait.
  using HoldAdapters = std::function<std::optional<AdapterRow>(const AdapterSum& sum)>;
  void set_adapters(HoldAdapters hold) { hold_adapters_ = std::move(hold); }

  // Starts waiting jobs, while no step runs, or begins to read the kept states of their histories.
  void admit();
  // Starts one job. `recalled`: tokens of its history that were read from a kept state.
  void start(Job& job, uint32_t recalled);
  // Takes pages for the job's rows, from younger jobs if need be. False: the job itself must wait. Drafts get only free
  // pages, and are left out without them.
  bool provide(Job& job, Portion& portion, std::vector<PageCopy>& copies);
  // Frees pages that no running job needs; false when there are none.
  bool reclaim();
  // Distinct pages of all groups that open sequences hold, idle ones, too. Snapshots' own pages do not count.
  uint64_t held_pages() const;

 private:
  bool is_running(const OpenSequence& sequence) const;
  bool has_room(const Job& job) const;
  bool has_adapters(Job& job) const;
  static void mark_pages(const OpenSequence& sequence, uint32_t group, std::vector<bool>& held);
  uint32_t pages_of_running(uint32_t group) const;
  void drop(Job& job);

  Cache* cache_;
  Board* board_;
  uint32_t sequences_;
  KeptStates* states_ = nullptr;  // null: there is no state store
  HoldAdapters hold_adapters_;    // empty: there are no adapters
};

}  // namespace sluice

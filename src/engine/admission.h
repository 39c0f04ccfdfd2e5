// Which requests run, and whose pages give way when a pool is short.
//
// Requests start in the order of submission, each when pages for its prompt and all its new tokens could be had at
// that moment. Running ones may still outgrow the pools together; then snapshots go first, then idle sequences, then
// the youngest running request: its pages are dropped and it waits, to be computed again in its classes, to the same
// bits. The oldest always goes on, so all end. Pages that are being filled from a file are given up before that.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/jobs.h"
#include "engine/state/kept_states.h"

namespace sluice {

class Admission {
 public:
  // `sequences`: running at once. Cache and board outlive it.
  Admission(Cache& cache, Board& board, uint32_t sequences) : cache_(&cache), board_(&board), sequences_(sequences) {}
  // Where to look for what was computed of a sequence before its job starts. Outlives it.
  void set_states(KeptStates& states) { states_ = &states; }

  // Starts waiting jobs, or begins to read what is kept of their histories.
  void admit();
  // Starts one of which so much was read, or nothing.
  void start(Job& job, uint32_t recalled);
  // Pages for the job's rows, taken from younger jobs if need be; false when it must wait itself. Drafts get only what
  // is free, or are left out.
  bool provide(Job& job, Portion& portion, std::vector<PageCopy>& copies);
  // Gives back pages that no running job needs; false when there are none.
  bool reclaim();

 private:
  bool is_running(const OpenSequence& sequence) const;
  bool has_room(const Job& job) const;
  uint32_t pages_of_running(uint32_t group) const;
  void drop(Job& job);

  Cache* cache_;
  Board* board_;
  uint32_t sequences_;
  KeptStates* states_ = nullptr;  // null: nothing is kept
};

}  // namespace sluice

// Automaton: plays a Grammar byte by byte. Its states are made as they are met, and kept.
//
// A state is a set of positions, each a node and a stack of the places to return to. Stacks and states are numbered, so
// a step that was taken before is a look-up. Bounded: a state has at most kMaxPositions, and the work between two calls
// of renew() is at most kMaxWork and takes at most some 36 MB; beyond that exhausted() is true and every state is dead,
// so that nothing invalid is ever allowed. Not thread safe: each answer has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace sluice {

class Automaton {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;

  // renew() leaves at most `room` bytes, or two states.
  explicit Automaton(std::shared_ptr<const Grammar> grammar, size_t room = SIZE_MAX);

  State start() const { return start_; }
  // Behind one more byte. kDead: no text of the grammar goes on like this.
  State next(State state, uint8_t byte) {
    if (!filled_[state]) fill(state);
    return rows_[size_t{state} * grammar_->classes + grammar_->class_of[byte]];
  }
  State next(State state, std::span<const uint8_t> bytes);
  bool can_end(State state) const { return ends_[state]; }
  size_t states() const { return ends_.size(); }
  bool exhausted() const { return exhausted_; }

  // Before each use: lets new work be done. If the states that are kept take more than the room, forgets all but
  // `state`, and the numbers of all states change, that of start() too; returns its new number. `forgot` says whether
  // that has happened.
  State renew(State state, bool* forgot);
  size_t bytes() const;  // about, of all states and stacks

 private:
  static constexpr uint32_t kReturn = UINT32_MAX;  // the count of a stack entry that is no round of a loop

  struct Position {
    uint32_t node;
    uint32_t stack;
    auto operator<=>(const Position&) const = default;
  };
  struct Entry {
    uint32_t node;   // to go on from; a loop that counts its rounds
    uint32_t count;  // rounds begun, or kReturn
    uint32_t below;
    bool operator==(const Entry&) const = default;
  };
  struct EntryHash {
    size_t operator()(const Entry& entry) const;
  };
  struct Positions {
    size_t begin;
    uint32_t count;
  };

  uint32_t push(const Entry& entry);
  void visit(uint32_t node, uint32_t stack);
  void enter_loop(uint32_t node, uint32_t count, uint32_t stack);
  // The state of what was visited, and all that follows from it without reading.
  State take_visited();
  State intern(bool ends);
  void fill(State state);
  std::span<const Position> positions(State state) const {
    return {positions_.data() + of_state_[state].begin, of_state_[state].count};
  }
  State forget_all_but(State state);
  void allow_growth();
  void clear();

  std::shared_ptr<const Grammar> grammar_;
  size_t room_;
  State start_ = kDead;
  uint64_t work_ = 0;
  size_t most_stacks_ = 0, most_positions_ = 0, most_row_entries_ = 0;  // until the next renew()
  bool exhausted_ = false;

  std::vector<Entry> stacks_;  // 0: the bottom
  std::unordered_map<Entry, uint32_t, EntryHash> stack_numbers_;

  std::vector<Positions> of_state_;
  std::vector<Position> positions_;
  std::unordered_multimap<uint64_t, State> state_numbers_;
  std::vector<bool> ends_, filled_;
  std::vector<State> rows_;  // by state and class

  // Of the state that is made.
  std::vector<Position> visited_, found_;
  std::vector<uint64_t> marks_;  // open-addressed set of visited_, emptied by a new epoch
  std::vector<uint32_t> mark_epochs_;
  uint32_t epoch_ = 0;
  bool found_end_ = false;
};

}  // namespace sluice

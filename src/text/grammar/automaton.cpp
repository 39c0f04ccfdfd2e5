#include "text/grammar/automaton.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

using Kind = GrammarNode::Kind;

constexpr uint32_t kMaxPositions = 8192;  // of a state
constexpr uint64_t kMaxWork = 4'000'000;  // positions visited between two calls of renew()
// That are new between two calls of renew(): 8 to 16 MB each.
constexpr size_t kNewStacks = 200'000;
constexpr size_t kNewPositions = 1'000'000;
constexpr size_t kNewRowEntries = 4'000'000;
constexpr size_t kHashNodeBytes = 24;  // of a hash table's entry beside its value: links in a list, and its bucket
constexpr size_t kFirstMarks = 64;
constexpr size_t kFewStates = 3;  // the dead one, the start and one more: nothing to forget

uint64_t mixed(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

}  // namespace

size_t Automaton::EntryHash::operator()(const Entry& entry) const {
  return static_cast<size_t>(mixed(mixed(uint64_t{entry.node} << 32 | entry.count) ^ entry.below));
}

Automaton::Automaton(std::shared_ptr<const Grammar> grammar, size_t room) : grammar_(std::move(grammar)), room_(room) {
  clear();
  allow_growth();
  ++epoch_;
  visit(grammar_->start, 0);
  start_ = take_visited();
}

// Gives the memory back, too.
void Automaton::clear() {
  stacks_ = std::vector<Entry>(1);
  stack_numbers_ = {};
  of_state_ = std::vector<Positions>{{0, 0}};
  positions_ = std::vector<Position>();
  state_numbers_ = {};
  ends_.assign(1, false);
  filled_.assign(1, true);
  rows_ = std::vector<State>(grammar_->classes, kDead);
  marks_ = std::vector<uint64_t>(kFirstMarks, 0);
  mark_epochs_ = std::vector<uint32_t>(kFirstMarks, 0);
  epoch_ = 0;
}

size_t Automaton::bytes() const {
  return stacks_.capacity() * sizeof(Entry) +
         stack_numbers_.size() * (sizeof(Entry) + sizeof(uint32_t) + kHashNodeBytes) +
         of_state_.capacity() * sizeof(Positions) + positions_.capacity() * sizeof(Position) +
         state_numbers_.size() * (sizeof(uint64_t) + sizeof(State) + kHashNodeBytes) +
         rows_.capacity() * sizeof(State) + marks_.capacity() * (sizeof(uint64_t) + sizeof(uint32_t));
}

Automaton::State Automaton::renew(State state, bool* forgot) {
  work_ = 0;
  *forgot = bytes() > room_ && states() > kFewStates && !exhausted_;
  if (*forgot) state = forget_all_but(state);
  allow_growth();
  return state;
}

void Automaton::allow_growth() {
  most_stacks_ = stacks_.size() + kNewStacks;
  most_positions_ = positions_.size() + kNewPositions;
  most_row_entries_ = rows_.size() + kNewRowEntries;
}

Automaton::State Automaton::forget_all_but(State state) {
  // Each stack is rebuilt from its bottom.
  const std::vector<Entry> old = stacks_;
  const std::span<const Position> kept = positions(state);
  std::vector<Position> all(kept.begin(), kept.end());
  const bool ends = ends_[state];
  clear();
  ++epoch_;
  visit(grammar_->start, 0);
  start_ = take_visited();
  std::vector<uint32_t> path;
  for (Position& position : all) {
    path.clear();
    for (uint32_t at = position.stack; at != 0; at = old[at].below) path.push_back(at);
    uint32_t stack = 0;
    for (size_t i = path.size(); i-- > 0;) stack = push({old[path[i]].node, old[path[i]].count, stack});
    position.stack = stack;
  }
  std::ranges::sort(all);
  found_ = std::move(all);
  return intern(ends);
}

Automaton::State Automaton::next(State state, std::span<const uint8_t> bytes) {
  for (const uint8_t byte : bytes) {
    if (state == kDead) break;
    state = next(state, byte);
  }
  return state;
}

uint32_t Automaton::push(const Entry& entry) {
  const auto [at, is_new] = stack_numbers_.emplace(entry, static_cast<uint32_t>(stacks_.size()));
  if (is_new) stacks_.push_back(entry);
  if (stacks_.size() > most_stacks_) exhausted_ = true;
  return at->second;
}

// Adds a position to go on from, once.
void Automaton::visit(uint32_t node, uint32_t stack) {
  if (grammar_->nodes[node].dead || exhausted_) return;
  if (++work_ > kMaxWork || visited_.size() >= kMaxPositions * 4) {
    exhausted_ = true;
    return;
  }
  if ((visited_.size() + 1) * 2 > marks_.size()) {
    marks_.assign(marks_.size() * 2, 0);
    mark_epochs_.assign(marks_.size(), 0);
    epoch_ = 1;
    for (const Position& one : visited_) {
      const uint64_t key = uint64_t{one.node} << 32 | one.stack;
      size_t at = static_cast<size_t>(mixed(key)) & (marks_.size() - 1);
      while (mark_epochs_[at] == epoch_) at = (at + 1) & (marks_.size() - 1);
      marks_[at] = key;
      mark_epochs_[at] = epoch_;
    }
  }
  const uint64_t key = uint64_t{node} << 32 | stack;
  size_t at = static_cast<size_t>(mixed(key)) & (marks_.size() - 1);
  for (; mark_epochs_[at] == epoch_; at = (at + 1) & (marks_.size() - 1))
    if (marks_[at] == key) return;
  marks_[at] = key;
  mark_epochs_[at] = epoch_;
  visited_.push_back({node, stack});
}

// `count` rounds are done.
void Automaton::enter_loop(uint32_t node, uint32_t count, uint32_t stack) {
  const GrammarLoop& loop = grammar_->loops[grammar_->nodes[node].of];
  if (count >= loop.least) visit(grammar_->nodes[node].next, stack);
  if (count >= loop.most) return;
  // Beyond `least`, an endless loop need not count.
  const uint32_t begun = loop.most == kUnbounded ? std::min(count + 1, loop.least) : count + 1;
  if (!grammar_->nodes[loop.body].dead) visit(loop.body, push({node, begun, stack}));
}

Automaton::State Automaton::take_visited() {
  found_.clear();
  found_end_ = false;
  for (size_t i = 0; i < visited_.size() && !exhausted_; ++i) {
    const Position at = visited_[i];
    const GrammarNode& node = grammar_->nodes[at.node];
    switch (node.kind) {
      case Kind::bytes: found_.push_back(at); break;
      case Kind::split: {
        const uint32_t begin = node.of == 0 ? 0 : grammar_->branch_ends[node.of - 1];
        for (uint32_t branch = begin; branch < grammar_->branch_ends[node.of]; ++branch)
          visit(grammar_->branches[branch], at.stack);
        break;
      }
      case Kind::call:
        // A call at the end of its rule needs no way back, so right recursion does not grow the stack.
        visit(node.of, node.next == Grammar::kEnd ? at.stack : push({node.next, kReturn, at.stack}));
        break;
      case Kind::loop: enter_loop(at.node, 0, at.stack); break;
      case Kind::end: {
        if (at.stack == 0) {
          found_end_ = true;
          break;
        }
        const Entry back = stacks_[at.stack];
        if (back.count == kReturn)
          visit(back.node, back.below);
        else
          enter_loop(back.node, back.count, back.below);
        break;
      }
    }
  }
  visited_.clear();
  if (found_.size() > kMaxPositions) exhausted_ = true;
  if (exhausted_ || (found_.empty() && !found_end_)) return kDead;
  std::ranges::sort(found_);
  return intern(found_end_);
}

// The number of the state with the positions found_.
Automaton::State Automaton::intern(bool ends) {
  uint64_t hash = ends ? 1 : 2;
  for (const Position& one : found_) hash = mixed(hash ^ (uint64_t{one.node} << 32 | one.stack)) * 3;
  const auto [begin, end] = state_numbers_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (ends_[at->second] == ends && std::ranges::equal(positions(at->second), found_)) return at->second;
  if (positions_.size() > most_positions_ || rows_.size() > most_row_entries_) {
    exhausted_ = true;
    return kDead;
  }
  const auto state = static_cast<State>(ends_.size());
  of_state_.push_back({positions_.size(), static_cast<uint32_t>(found_.size())});
  positions_.insert(positions_.end(), found_.begin(), found_.end());
  ends_.push_back(ends);
  filled_.push_back(false);
  rows_.resize(rows_.size() + grammar_->classes, kDead);
  state_numbers_.emplace(hash, state);
  return state;
}

// Computes a state's whole row. Classes that the same positions read share the work.
void Automaton::fill(State state) {
  const size_t count = of_state_[state].count;
  const size_t begin = of_state_[state].begin;
  std::vector<std::vector<uint32_t>> readers(grammar_->classes);
  for (uint32_t i = 0; i < count; ++i)
    for (const uint8_t one : grammar_->sets[grammar_->nodes[positions_[begin + i].node].of]) readers[one].push_back(i);
  std::vector<std::pair<uint32_t, State>> done;  // a class, and where it leads
  for (uint32_t one = 0; one < grammar_->classes; ++one) {
    if (readers[one].empty()) continue;
    const auto same =
        std::ranges::find_if(done, [&](const auto& other) { return readers[other.first] == readers[one]; });
    State to = kDead;
    if (same != done.end()) {
      to = same->second;
    } else {
      ++epoch_;
      for (const uint32_t i : readers[one]) {
        const Position at = positions_[begin + i];
        visit(grammar_->nodes[at.node].next, at.stack);
      }
      to = take_visited();
      done.emplace_back(one, to);
    }
    rows_[size_t{state} * grammar_->classes + one] = to;
  }
  filled_[state] = true;
}

}  // namespace sluice

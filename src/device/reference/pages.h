// Pages of keys and values, and slots. A page of a group holds, for each state of the group in the program's order,
//   keys   [64 positions][heads][key width]
//   values [64 positions][heads][value width]
// and of a slot group
//   table  [heads][key width][value width]
// as Real. The layout is this device's secret: others see bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "base/checked.h"
#include "graph/step.h"

namespace sluice::reference {

template <class Real>
class Pages {
 public:
  Pages(const Program& program, std::vector<uint32_t> counts);

  uint64_t page_bytes(uint32_t group) const { return page_elements_[group] * sizeof(Real); }
  CheckedSize bytes() const;
  void allocate();

  // Of one head at a position of the step's sequence.
  Real* key(const StepBuffer& step, uint32_t state, uint32_t sequence, int32_t position, uint32_t head);
  Real* value(const StepBuffer& step, uint32_t state, uint32_t sequence, int32_t position, uint32_t head);

  // The whole table of a state in that slot; null for -1, zeros.
  Real* table(uint32_t state, int32_t slot);

  std::span<std::byte> page(uint32_t group, uint32_t page);

 private:
  Real* slot(const StepBuffer& step, uint32_t state, uint32_t sequence, int32_t position, uint64_t offset,
             uint64_t columns);

  const Program* program_;
  std::vector<uint32_t> counts_;                       // pages, by group
  std::vector<uint64_t> page_elements_;                // by group
  std::vector<uint64_t> key_offsets_, value_offsets_;  // in elements of a page, by state
  std::vector<std::vector<Real>> memory_;              // by group
};

template <class Real>
Pages<Real>::Pages(const Program& program, std::vector<uint32_t> counts)
    : program_(&program), counts_(std::move(counts)), page_elements_(program.groups.size()) {
  for (const StateDecl& state : program.states) {
    uint64_t& end = page_elements_[state.group];
    key_offsets_.push_back(end);
    if (program.groups[state.group].kind == StateKind::slots) {
      value_offsets_.push_back(end);
      end += state.slot_elements();
      continue;
    }
    end += uint64_t{kPagePositions} * state.heads * state.key_width;
    value_offsets_.push_back(end);
    end += uint64_t{kPagePositions} * state.heads * state.value_width;
  }
}

template <class Real>
CheckedSize Pages<Real>::bytes() const {
  CheckedSize sum = 0;
  for (size_t group = 0; group < counts_.size(); ++group)
    sum += CheckedSize(counts_[group]) * page_elements_[group] * sizeof(Real);
  return sum;
}

template <class Real>
void Pages<Real>::allocate() {
  for (size_t group = 0; group < counts_.size(); ++group) memory_.emplace_back(counts_[group] * page_elements_[group]);
}

template <class Real>
Real* Pages<Real>::slot(const StepBuffer& step, uint32_t state, uint32_t sequence, int32_t position, uint64_t offset,
                        uint64_t columns) {
  const uint32_t group = program_->states[state].group;
  const int32_t entry = position / static_cast<int32_t>(kPagePositions) - step.first_page(group, sequence);
  const std::span<const int32_t> table = step.pages(group, sequence);
  CHECK(position >= 0 && entry >= 0 && static_cast<size_t>(entry) < table.size());
  const auto page = static_cast<uint32_t>(table[static_cast<size_t>(entry)]);
  CHECK(page < counts_[group]);
  const auto row = static_cast<uint32_t>(position) % kPagePositions;
  return memory_[group].data() + page * page_elements_[group] + offset + row * columns;
}

template <class Real>
Real* Pages<Real>::key(const StepBuffer& step, uint32_t state, uint32_t sequence, int32_t position, uint32_t head) {
  const StateDecl& decl = program_->states[state];
  const uint64_t columns = uint64_t{decl.heads} * decl.key_width;
  return slot(step, state, sequence, position, key_offsets_[state], columns) + uint64_t{head} * decl.key_width;
}

template <class Real>
Real* Pages<Real>::value(const StepBuffer& step, uint32_t state, uint32_t sequence, int32_t position, uint32_t head) {
  const StateDecl& decl = program_->states[state];
  const uint64_t columns = uint64_t{decl.heads} * decl.value_width;
  return slot(step, state, sequence, position, value_offsets_[state], columns) + uint64_t{head} * decl.value_width;
}

template <class Real>
Real* Pages<Real>::table(uint32_t state, int32_t slot) {
  const uint32_t group = program_->states[state].group;
  if (slot < 0) return nullptr;
  CHECK(static_cast<uint32_t>(slot) < counts_[group]);
  return memory_[group].data() + static_cast<uint32_t>(slot) * page_elements_[group] + key_offsets_[state];
}

template <class Real>
std::span<std::byte> Pages<Real>::page(uint32_t group, uint32_t page) {
  CHECK(group < counts_.size() && page < counts_[group]);
  return std::as_writable_bytes(std::span<Real>(memory_[group]))
      .subspan(page * page_bytes(group), static_cast<size_t>(page_bytes(group)));
}

}  // namespace sluice::reference

#include "slot_filler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/random.h"

namespace sluice {
namespace {

std::array<WeightId, 3> weights_of(const Experts& op) { return {op.gate, op.up, op.down}; }

}  // namespace

ExpertSlots slots_for(const Program& program, const WeightSource& weights, uint32_t count) {
  uint64_t most = 0;
  for (const Op& op : program.ops) {
    const auto* experts = std::get_if<Experts>(&op);
    if (experts == nullptr) continue;
    uint64_t bytes = 0;
    for (const WeightId id : weights_of(*experts)) {
      const TensorSource source = *weights.find(program.weights[id].name);
      for (const ExpertPiece& piece : expert_pieces(source)) bytes += piece.bytes + 8;
    }
    most = std::max(most, bytes);
  }
  return {.count = count, .bytes = (most + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment};
}

SlotFiller::SlotFiller(const Program& program, const WeightSource& weights, Runner& runner, uint32_t slots,
                       uint32_t seed)
    : program_(program),
      weights_(weights),
      runner_(runner),
      held_(slots),
      kept_(slots),
      slot_bytes_(slots_for(program, weights, slots).bytes),
      seed_(seed) {}

uint32_t SlotFiller::draw(uint64_t below) {
  return philox4x32({draws_++, 0, 0, 0}, {seed_, 0})[0] % static_cast<uint32_t>(below);
}

// A slot that may be filled, after whatever it held was taken away.
std::optional<uint32_t> SlotFiller::room() {
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < held_.size(); ++slot)
    if (!kept_[slot]) slots.push_back(slot);
  if (slots.empty()) return std::nullopt;
  const uint32_t slot = slots[draw(slots.size())];
  runner_.expert_memory()->release(slot);
  held_[slot].reset();
  return slot;
}

void SlotFiller::fill(uint32_t slot, ExpertId expert) {
  const auto& op = std::get<Experts>(program_.ops[expert.op]);
  std::span<std::byte> memory = runner_.expert_memory()->slot_memory(slot);
  std::vector<std::byte> read(memory.empty() ? slot_bytes_ : 0);
  if (memory.empty()) memory = read;
  std::memset(memory.data(), 0xff, memory.size());
  std::vector<const std::byte*> pieces;
  size_t at = draw(8);
  for (const WeightId id : weights_of(op)) {
    const TensorSource source = *weights_.find(program_.weights[id].name);
    for (const ExpertPiece& piece : expert_pieces(source)) {
      std::memcpy(memory.data() + at, piece_bytes(source, piece, expert.expert), piece.bytes);
      pieces.push_back(memory.data() + at);
      at += piece.bytes;
    }
  }
  // Elsewhere than in the host's memory it takes what was packed, the last part first here.
  std::vector<std::byte> packed(static_cast<size_t>(runner_.expert_memory()->packed_bytes()), std::byte{0xff});
  for (uint32_t part = kExpertParts; part-- > 0 && !read.empty();)
    runner_.expert_memory()->pack(expert, part, pieces, packed);
  if (!read.empty()) pieces = {packed.data()};
  std::ranges::fill(read, std::byte{0xff});  // not looked at any more
  const Ticket ticket = runner_.expert_memory()->fill(slot, expert, pieces);
  const std::optional<Completion> done = runner_.poll();
  ASSERT_TRUE(done && done->ticket == ticket && done->status.ok());
  std::ranges::fill(packed, std::byte{0xff});  // likewise
  held_[slot] = expert;
  kept_[slot] = true;
  ++filled_;
}

void SlotFiller::serve(const Completion& stopped) {
  for (const ExpertUse& use : stopped.used) {
    if (!guessed_ || guessed_->op != use.op) continue;
    ++guesses_;
    right_guesses_ += guessed_->experts == use.experts ? 1 : 0;
    guessed_.reset();
  }
  if (stopped.guessed) guessed_ = stopped.guessed;
  std::vector<ExpertId> missing = stopped.missing;
  const uint32_t op = missing.empty() ? stopped.used.back().op : missing[0].op;
  const bool first = !stopped.used.empty() && stopped.used.back().op == op;
  for (uint32_t slot = 0; slot < held_.size(); ++slot) {
    const auto& use = stopped.used;
    kept_[slot] = first && held_[slot] && held_[slot]->op == op &&
                  std::ranges::count(use.back().experts, held_[slot]->expert) != 0;
  }
  // Sometimes none at first: what is there has to be computed all the same.
  for (uint64_t wanted = draw(missing.size() + 1) + (first ? 0 : 1); wanted > 0 && !missing.empty(); --wanted) {
    const std::optional<uint32_t> slot = room();
    if (!slot) break;
    const uint32_t which = draw(missing.size());
    fill(*slot, missing[which]);
    missing.erase(missing.begin() + which);
  }
}

}  // namespace sluice

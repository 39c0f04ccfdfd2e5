#include "text/token_index.h"

#include <algorithm>
#include <string>

#include "text/vocabulary.h"

namespace sluice {
namespace {

uint32_t hash_of(std::string_view text) {
  const size_t hash = std::hash<std::string_view>{}(text);
  return static_cast<uint32_t>(hash ^ (uint64_t{hash} >> 32));
}

}  // namespace

size_t TokenIndex::slot_of(std::string_view text, uint32_t hash, const std::vector<Token>& tokens) const {
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].id >= 0) {
    if (slots_[slot].hash == hash && tokens[static_cast<size_t>(slots_[slot].id)].text == text) break;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void TokenIndex::grow() {
  std::vector<Slot> old(std::max<size_t>(64, slots_.size() * 2));
  old.swap(slots_);
  for (const Slot& entry : old) {
    if (entry.id < 0) continue;
    size_t slot = entry.hash & (slots_.size() - 1);
    while (slots_[slot].id >= 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = entry;
  }
}

std::optional<int32_t> TokenIndex::insert(int32_t id, const std::vector<Token>& tokens) {
  if (used_ * 2 >= slots_.size()) grow();
  const std::string_view text = tokens[static_cast<size_t>(id)].text;
  const uint32_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash, tokens)];
  if (slot.id >= 0) return slot.id;
  slot = {hash, id};
  ++used_;
  return std::nullopt;
}

std::optional<int32_t> TokenIndex::find(std::string_view text, const std::vector<Token>& tokens) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(text, hash_of(text), tokens)];
  return slot.id < 0 ? std::nullopt : std::optional(slot.id);
}

}  // namespace sluice

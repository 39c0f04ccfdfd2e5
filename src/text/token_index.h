// A hash table from token text to id. The vocabulary's token list owns the texts and is passed to every call.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice {

struct Token;

class TokenIndex {
 public:
  // Adds tokens[id]. Returns none if its text is new, else the id that has that text already.
  std::optional<int32_t> insert(int32_t id, const std::vector<Token>& tokens);
  std::optional<int32_t> find(std::string_view text, const std::vector<Token>& tokens) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  // The slot of `text`, or the empty slot where it would go.
  size_t slot_of(std::string_view text, uint32_t hash, const std::vector<Token>& tokens) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
};

}  // namespace sluice

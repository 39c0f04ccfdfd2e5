// Prompt lookup (Saxena 2023): guesses that a text goes on as it did where its last tokens stood before.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/history.h"

namespace sluice {

// Finds the last tokens of one growing history in the tokens before them. Each call costs what has been added since the
// last one and at most 64 places that are compared, however long the history is. Chains of places with equal last
// tokens, as LZ77's coders have them, take some 12 bytes a token.
class Lookup {
 public:
  struct Found {
    size_t next = 0;     // the tokens from here on followed the last time
    uint32_t match = 0;  // so many tokens before `next` are the history's last ones, at most 16; 0: nothing was found
  };
  // The longest match of two tokens or more among the 64 latest places. Of equally long ones the latest counts.
  Found find(const History& history);

 private:
  void add(const History& history, uint32_t end);
  void add_all_before(const History& history, uint32_t end);

  std::vector<uint32_t> latest_;  // by a hash of two tokens: behind their latest place; 0: none
  std::vector<uint32_t> before_;  // of each such place: the one before it with the same hash; 0: none
};

// The tokens from `found.next` on, at most `most`. At the end of the history they go on with themselves, as a text that
// repeats does. They end before a picture or sound.
std::vector<int32_t> tokens_behind(const History& history, const Lookup::Found& found, uint32_t most);

}  // namespace sluice

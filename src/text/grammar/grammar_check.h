// What is known of a grammar before it is played: nodes from which no text leads to the end, nodes that may read
// nothing, and rules that begin with themselves. Iterative, because a grammar is a stranger's: its depth is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/grammar/grammar.h"

namespace sluice {

class GrammarCheck {
 public:
  explicit GrammarCheck(Grammar& grammar);

  void mark_dead();
  // The first node of a part that can come to itself without reading a byte.
  std::optional<uint32_t> left_recursion() const;
  // Whether a loop with a large bound has a body that may be empty: playing it would go round without reading.
  bool repeats_nothing() const;

 private:
  // Nodes on which `holds` depends: it is evaluated until nothing changes. Starts from none.
  template <class Holds>
  std::vector<bool> fixed_point(const Holds& holds) const;
  std::vector<uint32_t> successors(uint32_t node) const;
  // Those that may be reached without reading, the entered part (of a call or loop) first; `entries` of them.
  std::vector<uint32_t> unread_successors(uint32_t node, size_t* entries) const;

  Grammar* grammar_;
  std::vector<bool> nullable_;  // may come to kEnd without reading
};

}  // namespace sluice

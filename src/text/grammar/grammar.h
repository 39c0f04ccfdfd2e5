// Grammar: which texts an answer may be, in the one form that every notation becomes.
//
// It is a recursive transition network over bytes. A node reads one byte, branches, calls another part of the network
// or counts how often it has gone round a loop. A rule ends at node kEnd. JSON schemas, GBNF, regular expressions and
// choices are compiled into it by GrammarBuilder; Automaton (automaton.h) plays it. Loops count at run time, so a
// string of at most 65,536 characters takes no more nodes than one of 10. Immutable: threads may share it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "text/grammar/byte_set.h"

namespace sluice {

inline constexpr uint64_t kMaxGrammarBytes = 1u << 20;  // of a schema, a grammar, a pattern or all choices together
inline constexpr uint64_t kMaxGrammarNodes = 1u << 20;
inline constexpr int kMaxGrammarDepth = 64;  // of nested groups, and of schemas within schemas
inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

struct GrammarNode {
  enum class Kind : uint8_t { end, bytes, split, call, loop };

  Kind kind = Kind::end;
  bool dead = false;  // no text leads from here to the end
  uint32_t of = 0;    // bytes: index in sets; split: in branch_ends; call: the node called; loop: index in loops
  uint32_t next = 0;  // behind it; not of a split
};

struct GrammarLoop {
  uint32_t body = 0;  // its first node; it ends at kEnd
  uint32_t least = 0;
  uint32_t most = kUnbounded;
};

struct Grammar {
  static constexpr uint32_t kEnd = 0;

  std::vector<GrammarNode> nodes;
  std::vector<GrammarLoop> loops;
  std::vector<uint32_t> branches;     // of all splits
  std::vector<uint32_t> branch_ends;  // those of split i: from branch_ends[i - 1] (0 for the first) on
  uint32_t start = 0;

  // Bytes that no node tells apart are one class.
  std::array<uint8_t, 256> class_of{};
  uint32_t classes = 0;
  std::vector<std::vector<uint8_t>> sets;  // as ascending classes

  uint64_t bytes() const {
    uint64_t of_sets = 0;
    for (const std::vector<uint8_t>& set : sets) of_sets += sizeof(std::vector<uint8_t>) + set.capacity();
    return nodes.capacity() * sizeof(GrammarNode) + loops.capacity() * sizeof(GrammarLoop) +
           (branches.capacity() + branch_ends.capacity()) * sizeof(uint32_t) + of_sets;
  }
};

}  // namespace sluice

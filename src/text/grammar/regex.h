// Regular expressions as parts of a grammar.
//
// The notation is that of ECMA-262 with u, as JSON Schema names it: groups, alternatives, classes, quantifiers,
// escapes. Look-around, word boundaries and back-references are refused by name, because no automaton has them. ^ and $
// stand at the ends of alternatives that are in no group.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "text/grammar/code_points.h"
#include "text/grammar/grammar_builder.h"

namespace sluice {

struct RegexOptions {
  bool search =
      false;          // matches anywhere in a text unless it is anchored, as JSON Schema's patterns do; else all of it
  bool json = false;  // characters are written as within a JSON string
};

// Some of the characters again and again.
struct CharacterRun {
  CodePoints characters;
  uint32_t least = 0;
  uint32_t most = kUnbounded;
};

struct RegexPart {
  Expression expression = 0;
  uint64_t shortest = 0, longest = 0;    // characters; kUnbounded and above: no bound
  std::optional<CharacterRun> run = {};  // if it is no more than that
};

// Errors begin with the expression.
Result<RegexPart> parse_regex(GrammarBuilder& builder, std::string_view regex, RegexOptions options);

}  // namespace sluice

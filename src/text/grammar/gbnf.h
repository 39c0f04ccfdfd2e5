// GBNF, llama.cpp's notation of grammars, as a grammar. The answer is the rule "root".
//
//   root ::= "yes" | "no" [.!]?    # literals, classes, groups, * + ? {m} {m,} {m,n}, comments
//
// Source: llama.cpp's grammars/README.md. Its references to tokens (<...>) are refused. A rule that begins with itself
// is refused there, too.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace sluice {

Result<Grammar> grammar_of_gbnf(std::string_view source);

}  // namespace sluice

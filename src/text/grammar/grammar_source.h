// A constraint of an answer as a request gives it, and its compilation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/call_grammar.h"
#include "text/grammar/grammar.h"

namespace sluice {

struct GrammarSource {
  enum class Kind : uint8_t { json_object, json_schema, gbnf, regex, choice, calls };

  Kind kind = Kind::json_object;
  Json schema = {};                       // of json_schema
  std::string text = {};                  // of gbnf and regex
  std::vector<std::string> choices = {};  // of choice
  CallForm calls = {};
};

// The grammar, or one sentence: which part of the source cannot be honoured, and why.
Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSource& source);

}  // namespace sluice

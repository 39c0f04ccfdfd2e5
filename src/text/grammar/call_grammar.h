// Calls of tools as a grammar: what an answer may be whose calls are enforced.
//
// Names are those of the tools, and arguments fit the tools' schemas, so that the parser of the syntax
// (dialects/tool_syntax.h) reads every call. Objects with properties have no other members unless their schema says
// so. A schema that cannot be honoured is refused if its tool is strict; else the arguments are any object.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/grammar.h"

namespace sluice {

// How a chat template writes calls.
enum class CallNotation : uint8_t {
  gemma4,           // OPEN call:NAME{key:value} CLOSE
  xml_parameters,   // OPEN <function=NAME> <parameter=KEY> VALUE </parameter> </function> CLOSE
  xml_json,         // OPEN {"name": NAME, "arguments": {...}} CLOSE
  deepseek,         // OPEN NAME SEPARATOR {...} CLOSE, all calls between two more markers
  deepseek_fenced,  // OPEN function SEPARATOR NAME, a fence around {...}, CLOSE; likewise
};

struct CallForm {
  CallNotation notation{};
  Json tools = {};             // that may be called: OpenAI's list, at least one
  uint32_t most = kUnbounded;  // calls, at least 1
  // The grammar is one call, from the token that opens it to the one that closes it. Else it is the whole answer: at
  // least one call, or JSON by `form`.
  bool only_call = false;
  std::optional<Json> form = {};  // a schema
};

// The markers in it are numbered as markers.h says.
Result<Grammar> grammar_of_calls(const CallForm& calls);

}  // namespace sluice

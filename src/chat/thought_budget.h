// A bound on an answer's thoughts: behind so many tokens of them the marker that closes a thought is the only token
// that may come, and the answer goes on behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/constraint.h"
#include "text/dialects/dialect.h"
#include "text/dialects/tool_syntax.h"
#include "text/tokenizer.h"

namespace sluice {

// The constraint of an answer that thinks for at most `budget` tokens, markers not counted, all its thoughts together.
// `inner`: what else holds for the answer; null: nothing. `begun`: the prompt ends inside a thought. `calls`: of the
// request's tools, within which markers are text; null: none. Returns `inner` for a vocabulary without the markers.
std::shared_ptr<Constraint> bound_thought(uint32_t budget, const Tokenizer& tokenizer, const ChatDialect& dialect,
                                          const ToolSyntax* calls, bool begun, std::shared_ptr<Constraint> inner);

}  // namespace sluice

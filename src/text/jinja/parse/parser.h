// Tokens to a tree, by jinja2's grammar and precedences. Statements: if, for (with if, else, recursive), set, macro,
// call, filter, with, raw (in the lexer), break and continue (extension loopcontrols), and generation (transformers'
// own block, which marks what an assistant said and prints its body). There is nothing to include or extend from, so
// include, import, extends and block are errors.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/lexer.h"

namespace sluice::jinja {

Result<Block> parse(std::string_view text, std::string_view name);

}  // namespace sluice::jinja

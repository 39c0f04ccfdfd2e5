// Parses tokens into a tree, by jinja2's grammar and precedences. Statements: if, for (with if, else, recursive), set,
// macro, call, filter, with, raw (in the lexer), break and continue (extension loopcontrols), and generation
// (transformers' own block, which marks an assistant's text and prints it). No other template can be loaded, so
// include, import, extends and block are errors.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/lexer.h"

namespace sluice::jinja {

Result<Block> parse(std::string_view text, std::string_view name);

}  // namespace sluice::jinja

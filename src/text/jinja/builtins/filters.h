// The filters: those of jinja2 that make sense for text, transformers' tojson, and from_json, which templates for other
// engines expect. Filters for web pages and terminals are left out (urlize, xmlattr, striptags, wordwrap,
// filesizeformat, pprint, random).
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/builtins/builtin.h"

namespace sluice::jinja {

// nullptr for an unknown filter.
const Builtin* find_filter(std::string_view name);
Result<Value> apply_filter(Machine& machine, std::string_view name, const Value& input, const Arguments& arguments);

// The three tables that find_filter searches.
std::span<const Builtin> text_filters();
std::span<const Builtin> value_filters();
std::span<const Builtin> list_filters();

}  // namespace sluice::jinja

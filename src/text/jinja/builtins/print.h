// Values as text: Python's str() and repr(), and json.dumps() as transformers' filter "tojson" calls it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// Each returns a text. A text prints as it is; undefined prints nothing.
Result<Value> to_text(Machine& machine, const Value& value);
Result<Value> to_repr(Machine& machine, const Value& value);

struct JsonDumps {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; none: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Result<Value> to_json(Machine& machine, const Value& value, const JsonDumps& style);

// repr() of a float: "1.0", "1e-06", "inf".
std::string float_text(double value);

}  // namespace sluice::jinja

// Methods of strings, lists and dicts. Methods that would change a list or dict are refused, as in the sandbox of
// transformers: they are undefined, and calling one says why.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// The method bound to `object`; none if its type has no such method.
Result<std::optional<Value>> find_method(Machine& machine, const Value& object, std::string_view name);

}  // namespace sluice::jinja

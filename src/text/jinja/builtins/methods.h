// Methods of strings, lists and dicts. Those that would change a list or dict are known only to be refused, as the
// sandbox transformers renders in does: they are undefined, and say why when they are called.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

// The method bound to `object`, or nothing when its type has none of that name.
Result<std::optional<Value>> find_method(Machine& machine, const Value& object, std::string_view name);

}  // namespace sluice::jinja

// str's methods, as a table.
#pragma once

#include <span>

#include "text/jinja/builtins/builtin.h"

namespace sluice::jinja {

std::span<const Builtin> text_methods();

}  // namespace sluice::jinja

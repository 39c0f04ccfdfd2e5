// The functions every template has: jinja2's range, dict, namespace, cycler, joiner, and transformers' raise_exception
// and strftime_now.
#pragma once

#include <span>

#include "text/jinja/builtins/builtin.h"

namespace sluice::jinja {

std::span<const Builtin> global_functions();

}  // namespace sluice::jinja

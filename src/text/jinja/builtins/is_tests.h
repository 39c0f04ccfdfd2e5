// The tests of "value is test": jinja2's own.
#pragma once

#include <string_view>

#include "text/jinja/machine.h"

namespace sluice::jinja {

bool is_test_known(std::string_view name);
Result<bool> apply_test(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace sluice::jinja

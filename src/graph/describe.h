// docs/operators.md: the catalogue of operators in words, from the ops themselves.
#pragma once

#include <string>

namespace sluice {

std::string operators_markdown();

}  // namespace sluice

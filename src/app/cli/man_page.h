// docs/sluice.1, the manual page, from the command tables.
#pragma once

#include <string>

namespace sluice {

std::string man_page();

}  // namespace sluice

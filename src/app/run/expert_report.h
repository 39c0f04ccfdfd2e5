// The line of --stats about experts that are read as they are chosen.
#pragma once

#include <string>

#include "engine/options.h"

namespace sluice {

std::string expert_text(const ExpertStats& stats);  // a line

}  // namespace sluice

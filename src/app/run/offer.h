// A model that is not on this machine, offered before it is fetched: how large it is, where it goes, and how much
// memory it takes by its header alone.
#pragma once

#include <string>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "base/result.h"

namespace sluice {

// Asks on the terminal, and fetches it after a yes. False: the answer was no. `arguments`: those of sluice run.
Result<bool> offer_model(const std::string& name, const Arguments& arguments, Console& console);

}  // namespace sluice

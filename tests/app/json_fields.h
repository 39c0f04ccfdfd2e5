// Holds what a command printed with --json to the command's table of members, which docs/cli.md shows.
#pragma once

#include <set>
#include <string>

#include "app/cli/args.h"
#include "base/json.h"

namespace sluice {

// Every member of `json` is in the command's table, with its type. Adds the paths it saw to `seen`.
void expect_known_fields(const CommandSpec& command, const Json& json, std::set<std::string>& seen);
// Every row of the table was seen.
void expect_all_fields(const CommandSpec& command, const std::set<std::string>& seen);

}  // namespace sluice

// The commands, in the order help lists them. Each lives in the file of its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli/args.h"

namespace sluice {

CommandSpec run_command();
CommandSpec serve_command();
CommandSpec verify_command();
CommandSpec inspect_command();
CommandSpec convert_command();
CommandSpec train_command();
CommandSpec bench_command();
CommandSpec plan_command();
CommandSpec list_command();
CommandSpec pull_command();
CommandSpec devices_command();
CommandSpec completion_command();
CommandSpec help_command();

// The exit status of a mistake in the arguments.
inline constexpr int kUsageExit = 2;

// MODEL of every command that has one; -m gives it, too.
PositionalSpec model_positional(bool required);

const std::vector<CommandSpec>& all_commands();
const CommandSpec* find_command(std::string_view name);  // by its name or another one
std::vector<std::string> command_names();                // with their other names

}  // namespace sluice

// Help as text for a terminal, and the whole of docs/cli.md, both from the command tables.
#pragma once

#include <string>

#include "app/cli/args.h"

namespace sluice {

std::string help_overview();
std::string help_text(const CommandSpec& command);
std::string help_markdown();

// Parts of it, for the manual page.
std::string usage_line(const CommandSpec& command);
std::vector<TableRow> option_rows(const CommandSpec& command);
std::vector<TableRow> positional_rows(const CommandSpec& command);
std::vector<TableRow> exit_rows();
std::string table_text(const std::vector<TableRow>& rows);  // two columns

}  // namespace sluice

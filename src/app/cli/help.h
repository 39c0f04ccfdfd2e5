// Help as text for a terminal, and the whole of docs/cli.md, both from the command tables.
#pragma once

#include <string>

#include "app/cli/args.h"

namespace sluice {

inline constexpr size_t kHelpWidth = 100;  // the widest line, and that without a terminal

// `columns`: the terminal's width; 0: unknown.
std::string help_overview(size_t columns);
std::string help_text(const CommandSpec& command, size_t columns);
std::string help_markdown();

// Parts of it, for the manual page.
std::string usage_line(const CommandSpec& command);
std::vector<TableRow> option_rows(const CommandSpec& command);
std::vector<TableRow> positional_rows(const CommandSpec& command);
std::vector<TableRow> exit_rows();
std::string summary_of(const CommandSpec& command);                         // with its other names
std::string table_text(const std::vector<TableRow>& rows, size_t columns);  // two columns

}  // namespace sluice

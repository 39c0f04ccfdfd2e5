// Help as text for a terminal, and the whole of docs/cli.md, both from the command tables.
#pragma once

#include <string>

#include "app/args.h"

namespace sluice {

std::string help_overview();
std::string help_text(const CommandSpec& command);
std::string help_markdown();
std::string table_text(const std::vector<TableRow>& rows);  // two columns

}  // namespace sluice

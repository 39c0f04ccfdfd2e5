// Asks the terminal at standard input and output a question.
#pragma once

#include <string>
#include <string_view>

#include "app/cli/console.h"

namespace sluice {

// Writes `question`, an escape sequence, and gives what the terminal answers up to the character `last`; "" where it
// does not answer within a moment, or where something was typed that must not be lost.
std::string ask_terminal(Console& console, std::string_view question, char last);

}  // namespace sluice

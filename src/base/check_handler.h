// A handler that replaces the abort of a failed CHECK. Test programs set one, so that a failed CHECK fails one test and
// the tests behind it still run.
#pragma once

namespace sluice {

// Gets the text that CHECK would print. It must not return: it throws or ends the process.
using CheckHandler = void (*)(const char* condition, const char* file, int line);

// Null: print and abort, as without a handler. Set before threads begin.
void set_check_handler(CheckHandler handler);

}  // namespace sluice

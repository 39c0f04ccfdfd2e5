// What a failed CHECK does instead of aborting: for test programs, in which one broken promise is to fail one test and
// not hide all that come behind it.
#pragma once

namespace sluice {

// Called with what CHECK would print; does not return: throws, or ends the process.
using CheckHandler = void (*)(const char* condition, const char* file, int line);

// Null: print and abort, as without a handler. Set before threads begin.
void set_check_handler(CheckHandler handler);

}  // namespace sluice

// Errors that end the program wherever it stands: a mapped model file became shorter while it was read (SIGBUS), or
// memory ran out on a thread that catches no exception. Each prints one sentence, leaves no half-written file and exits
// with status 1.
#pragma once

namespace sluice {

inline constexpr int kFailedExit = 1;
inline constexpr const char* kOutOfMemory =
    "sluice: out of memory: want a smaller model, a shorter context or a machine with more\n";

// Installs the handlers, once, at the start of the program.
void handle_fatal_errors();

}  // namespace sluice

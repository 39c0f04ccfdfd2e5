// Errors that end the program at any point: a mapped model file was shortened while it was read (SIGBUS), or memory ran
// out on a thread that catches no exception. The handlers print one sentence, remove unfinished files and exit with
// status 1.
#pragma once

namespace sluice {

inline constexpr int kFailedExit = 1;
inline constexpr const char* kOutOfMemory =
    "sluice: out of memory: want a smaller model, a shorter context or a machine with more\n";

// Installs the handlers, once, at the start of the program.
void handle_fatal_errors();

}  // namespace sluice

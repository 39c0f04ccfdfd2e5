// What the program says when it cannot go on from where it is: a mapped model file that became shorter under it, memory
// that ran out on another thread. One sentence, no file half written, exit status 1.
#pragma once

namespace sluice {

inline constexpr int kFailedExit = 1;
inline constexpr const char* kOutOfMemory =
    "sluice: out of memory: want a smaller model, a shorter context or a machine with more\n";

// Answers SIGBUS in a mapped file, and exceptions that no thread catches.
void prepare_last_words();

}  // namespace sluice

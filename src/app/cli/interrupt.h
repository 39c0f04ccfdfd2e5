// Ctrl-C: the first one stops the answer, the second one leaves. A signal handler counts; loops ask.
#pragma once

#include <atomic>

namespace sluice {

inline constexpr int kInterruptedExit = 130;  // 128 + SIGINT, as shells have it

// From here on SIGINT is counted instead of ending the process. A second one before clearing ends it at once.
void watch_interrupts();
// The same for SIGTERM, with which service managers end a server.
void watch_termination();
bool interrupted();
// The same for work that `stop` ends, too, when another thread sets it; may be null.
bool interrupted(const std::atomic<bool>* stop);
// Clears the count, once it has been handled.
void clear_interrupts();

}  // namespace sluice

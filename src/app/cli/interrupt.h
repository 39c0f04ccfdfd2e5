// Ctrl-C: the first stops what is being answered, the second leaves. A signal handler counts; loops ask.
#pragma once

namespace sluice {

inline constexpr int kInterruptedExit = 130;  // 128 + SIGINT, as shells have it

// From here on SIGINT is counted instead of ending the process; a second one within one counting ends it at once.
void watch_interrupts();
bool interrupted();
// What was counted is dealt with.
void clear_interrupts();

}  // namespace sluice

#include "app/cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/files/file.h"

namespace sluice {
namespace {

// A server's socket thread asks, while any thread may be the one that a signal stops.
std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler counts");

void count_interrupt(int) {
  if (++interrupts > 1) {
    remove_unfinished_files();
    _exit(kInterruptedExit);
  }
}

void count(int signal) {
  struct sigaction action = {};
  action.sa_handler = count_interrupt;  // without SA_RESTART: a blocked read returns, so that the prompt line sees it
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_interrupts() { count(SIGINT); }

void watch_termination() { count(SIGTERM); }

bool interrupted() { return interrupts > 0; }

bool interrupted(const std::atomic<bool>* stop) { return interrupted() || (stop != nullptr && *stop); }

void clear_interrupts() { interrupts = 0; }

}  // namespace sluice

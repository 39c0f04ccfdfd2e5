// While an object of this type lives, new threads block all signals except those of their own faults. Other signals
// then go to the threads that wait for them.
#pragma once

#if defined(__linux__)
#include <csignal>
#endif

namespace sluice {

class SignalsBlocked {
#if defined(__linux__)
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGBUS, SIGFPE, SIGILL, SIGSEGV}) sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
#endif
};

}  // namespace sluice

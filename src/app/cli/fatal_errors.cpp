#include "app/cli/fatal_errors.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "base/files/file.h"

namespace sluice {
namespace {

// May be called in a signal handler: takes no lock and allocates nothing.
void say(const char* text) {
  // A failure cannot be reported, so it is ignored.
  static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
}

void lose_file(int, siginfo_t* info, void*) {
  const char* path = mapped_file_at(info->si_addr);
  if (path == nullptr) {
    std::signal(SIGBUS, SIG_DFL);  // the instruction is run again, and ends the program as it should
    return;
  }
  if (::isatty(STDERR_FILENO) == 1) say("\r\x1b[K");  // a line of progress may stand there
  say("sluice: ");
  say(path);
  say(": became shorter, or its disk failed, while it was read: want a file that nothing writes to\n");
  remove_unfinished_files();
  ::_exit(kFailedExit);
}

[[noreturn]] void end_out_of_memory() {
  say(kOutOfMemory);
  remove_unfinished_files();
  ::_exit(kFailedExit);
}

void end_without_catch() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (...) {
    std::abort();  // ours to find: it ends as it would have
  }
  // Where memory does not suffice for an exception there is none.
  constexpr size_t kLittle = 4096;
  void* volatile little = std::malloc(kLittle);  // volatile: or a compiler leaves the call out
  if (little == nullptr) end_out_of_memory();
  std::free(little);
  std::abort();
}

}  // namespace

void handle_fatal_errors() {
  struct sigaction action = {};
  action.sa_sigaction = lose_file;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
  std::set_terminate(end_without_catch);
}

}  // namespace sluice

// A program that is run with a list of arguments, without a shell, and read through a pipe. It has no standard input.
// What it writes to standard error is kept for a sentence, not shown. It is killed when it takes too long, at Ctrl-C
// and when this object goes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct ChildEnd {
  int status = 0;              // exit status; with a signal not 0
  int signal = 0;              // that ended it; 0: none
  std::string last_line = {};  // of standard error
};

class Child {
 public:
  // The program is searched in PATH; not_found where there is none. `seconds`: the longest that it may run.
  static Result<Child> start(const std::vector<std::string>& words, double seconds);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  // Waits for output: how many bytes it is, 0 at its end. Cancelled at Ctrl-C, or when time is up.
  Result<size_t> read(std::span<std::byte> into);
  // Reads no more and waits for the end.
  Result<ChildEnd> finish();

 private:
  using Clock = std::chrono::steady_clock;
  Child(std::string name, pid_t process, int out, int err, double seconds);
  Status wait_for_pipe(bool& out_ready);
  void take_error_text();
  void kill_and_reap();

  std::string name_;
  pid_t process_ = -1;       // -1: none, or it has ended
  int out_ = -1, err_ = -1;  // ends of pipes; -1: closed
  double seconds_;
  Clock::time_point deadline_;
  std::string error_text_;
};

}  // namespace sluice

#include "app/files/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "app/cli/interrupt.h"
#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kMaxErrorText = 1 << 14;
constexpr int kPollMilliseconds = 20;  // between two looks at the clock and at Ctrl-C

using Pipe = std::array<int, 2>;

void close_all(std::initializer_list<int> descriptors) {
  for (const int descriptor : descriptors)
    if (descriptor >= 0) ::close(descriptor);
}

// Standard input is empty, output and error go to the pipes, signals are as in a fresh program. 0 or an error number.
int spawn(const std::vector<std::string>& words, const Pipe& out, const Pipe& err, pid_t& process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGINT, SIGPIPE, SIGTERM}) sigaddset(&usual, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  arguments.reserve(copies.size() + 1);
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int failed = posix_spawnp(&process, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failed;
}

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const size_t end = text.rfind('\n');
  return std::string(end == std::string_view::npos ? text : text.substr(end + 1));
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& words, double seconds) {
  Pipe out = {-1, -1}, err = {-1, -1};
  if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
    const int failed = errno;
    close_all({out[0], out[1], err[0], err[1]});
    return system_error(words[0], "start", failed);
  }
  pid_t process = -1;
  const int failed = spawn(words, out, err, process);
  close_all({out[1], err[1]});
  if (failed == 0) return Child(words[0], process, out[0], err[0], seconds);
  close_all({out[0], err[0]});
  return system_error(words[0], "start", failed);
}

Child::Child(std::string name, pid_t process, int out, int err, double seconds)
    : name_(std::move(name)),
      process_(process),
      out_(out),
      err_(err),
      seconds_(seconds),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)),
      process_(std::exchange(other.process_, -1)),
      out_(std::exchange(other.out_, -1)),
      err_(std::exchange(other.err_, -1)),
      seconds_(other.seconds_),
      deadline_(other.deadline_),
      error_text_(std::move(other.error_text_)) {}

Child::~Child() { kill_and_reap(); }

void Child::kill_and_reap() {
  close_all({std::exchange(out_, -1), std::exchange(err_, -1)});
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

void Child::take_error_text() {
  std::array<char, 4096> piece{};
  const ssize_t got = ::read(err_, piece.data(), piece.size());
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    close_all({std::exchange(err_, -1)});
    return;
  }
  error_text_.append(piece.data(), static_cast<size_t>(got));
  if (error_text_.size() > kMaxErrorText) error_text_.erase(0, error_text_.size() - kMaxErrorText);
}

// Waits some milliseconds, and takes what standard error has.
Status Child::wait_for_pipe(bool& out_ready) {
  if (interrupted()) return error(ErrorKind::cancelled, name_, ": stopped: want it to end");
  if (Clock::now() > deadline_)
    return error(ErrorKind::cancelled, name_, ": takes more than ", seconds_, " s: want a shorter file");
  std::array<pollfd, 2> pipes = {{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  if (::poll(pipes.data(), pipes.size(), kPollMilliseconds) < 0 && errno != EINTR)
    return system_error(name_, "read", errno);
  if (err_ >= 0 && pipes[1].revents != 0) take_error_text();
  out_ready = out_ >= 0 && pipes[0].revents != 0;
  return {};
}

Result<size_t> Child::read(std::span<std::byte> into) {
  while (out_ >= 0) {
    bool ready = false;
    TRY_STATUS(wait_for_pipe(ready));
    if (!ready) continue;
    const ssize_t got = ::read(out_, into.data(), into.size());
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) break;
    if (errno != EINTR) return system_error(name_, "read", errno);
  }
  return size_t{0};
}

Result<ChildEnd> Child::finish() {
  close_all({std::exchange(out_, -1)});
  while (err_ >= 0) {
    bool ready = false;
    TRY_STATUS(wait_for_pipe(ready));
  }
  int status = 0;
  for (pid_t ended = 0; ended != process_;) {
    bool ready = false;
    ended = ::waitpid(process_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return system_error(name_, "wait for", errno);
    if (ended <= 0) TRY_STATUS(wait_for_pipe(ready));
  }
  process_ = -1;
  ChildEnd end{.last_line = last_line(error_text_)};
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + end.signal;
  return end;
}

}  // namespace sluice

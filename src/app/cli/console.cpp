#include "app/cli/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "app/cli/word_wrap.h"
#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kMaxLine = 4096;

// If the caller closed a standard descriptor, opens /dev/null in its place. Otherwise the next file that is opened,
// such as a model, would become standard input or output.
void hold_open(int descriptor) {
  if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

Error broken(const char* name, const char* doing, int error_number) {
  return error_number == EBADF ? error(ErrorKind::io, name, ": is closed") : system_error(name, doing, error_number);
}

// Writes all of `text`; 0 or the system's error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

}  // namespace

Console::Console()
    : out_is_terminal_(isatty(STDOUT_FILENO) == 1),
      err_is_terminal_(isatty(STDERR_FILENO) == 1),
      in_is_terminal_(isatty(STDIN_FILENO) == 1) {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    hold_open(descriptor);  // in this order: the lowest free number is taken
}

void Console::out(std::string_view text) {
  if (!status_) return;
  const int failed = write_all(STDOUT_FILENO, text);
  if (failed == EPIPE)
    status_ = error(ErrorKind::cancelled, "standard output: the reader has gone");
  else if (failed != 0)
    status_ = broken("standard output", "write", failed);
}

void Console::table(std::string_view text) { out(columns() == 0 ? std::string(text) : folded(text, columns())); }

void Console::err(std::string_view text) {
  // Nobody is left to tell when this fails.
  static_cast<void>(write_all(STDERR_FILENO, text));
}

void Console::remark(std::string_view line) { err(err_is_terminal_ ? cat(kDim, line, kPlain, '\n') : cat(line, '\n')); }

void Console::json(const Json& value) { out(write_json(value, {.indent = 2}) + "\n"); }

size_t Console::columns() const {
  winsize size = {};
  return out_is_terminal_ && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Result<std::string> Console::read_in(size_t limit) {
  std::string text;
  char piece[16384];
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return broken("standard input", "read", errno);
    if (text.size() + static_cast<size_t>(got) > limit)
      return error(ErrorKind::invalid, "standard input: more than ", format_bytes(limit), ": want a shorter prompt");
    text.append(piece, static_cast<size_t>(got));
  }
}

Result<std::string> Console::read_line() {
  std::string line;
  char byte = 0;
  while (line.size() < kMaxLine) {
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return broken("standard input", "read", errno);
    if (got == 0 || byte == '\n') return line;
    line += byte;
  }
  return line;
}

}  // namespace sluice

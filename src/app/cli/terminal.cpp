#include "app/cli/terminal.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

namespace sluice {
namespace {

constexpr int kMomentMilliseconds = 200;
constexpr size_t kMaxAnswer = 256;

// Without echo and line by line reading, until it goes.
class RawMode {
 public:
  RawMode() : set_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!set_) return;
    termios mode = before_;
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    mode.c_cc[VMIN] = 0;
    mode.c_cc[VTIME] = 0;
    set_ = tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0;
  }
  ~RawMode() {
    if (set_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  bool set() const { return set_; }

 private:
  termios before_{};
  bool set_;
};

bool has_typed() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

}  // namespace

std::string ask_terminal(Console& console, std::string_view question, char last) {
  const RawMode raw;
  if (!raw.set() || has_typed()) return "";
  console.out(question);
  std::string answer;
  while (answer.size() < kMaxAnswer && (answer.empty() || answer.back() != last)) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    char byte = 0;
    if (::poll(&input, 1, kMomentMilliseconds) <= 0 || ::read(STDIN_FILENO, &byte, 1) != 1) return "";
    answer += byte;
  }
  return answer;
}

}  // namespace sluice

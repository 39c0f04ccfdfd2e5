#include "app/run/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <utility>

#include "app/cli/interrupt.h"
#include "app/run/chat_history.h"

namespace sluice {

constexpr long kIdleNanoseconds = 5'000'000;  // between two calls

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string prompt;
  std::function<bool()> idle;
  int typed_ahead = 0;  // bytes of input that were there before the terminal left its own line mode

  static State* of(EditLine* editor) {
    void* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return static_cast<State*>(state);
  }
  static char* prompt_of(EditLine* editor) { return of(editor)->prompt.data(); }
  static int read_character(EditLine* editor, wchar_t* character);
  void leave_line_mode();
  bool wait_for_byte() const;
  int read_byte(char& byte);
};

// Before the prompt is shown, as libedit would only after it: what is typed at the prompt is then echoed once. libedit
// puts the terminal back.
void LineEditor::State::leave_line_mode() {
  termios mode = {};
  if (tcgetattr(STDIN_FILENO, &mode) == 0) {
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
  }
  if (ioctl(STDIN_FILENO, FIONREAD, &typed_ahead) != 0) typed_ahead = 0;
}

// False when a Ctrl-C comes first. One that came between the last look and here is seen too: the signal is let in by
// ppoll alone.
bool LineEditor::State::wait_for_byte() const {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, &before);
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  for (bool waiting = true; waiting && !interrupted();) {
    const timespec moment = {.tv_sec = 0, .tv_nsec = kIdleNanoseconds};
    const int typed = ppoll(&input, 1, idle() ? &moment : nullptr, &before);
    waiting = typed == 0 || (typed < 0 && errno == EINTR);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return !interrupted();
}

// As read(): 1, 0 at the end of input, -1.
int LineEditor::State::read_byte(char& byte) {
  if (!wait_for_byte()) return -1;
  const auto got = static_cast<int>(::read(STDIN_FILENO, &byte, 1));
  // A Ctrl-D typed at a terminal in its own line mode reads as a null character once that mode is left.
  if (got == 1 && typed_ahead > 0) {
    --typed_ahead;
    byte = byte == '\0' ? '\x04' : byte;
  }
  return got;
}

int LineEditor::State::read_character(EditLine* editor, wchar_t* character) {
  State& state = *of(editor);
  std::mbstate_t shift = {};
  for (;;) {
    char byte = 0;
    const int got = state.read_byte(byte);
    if (got != 1) return got;
    const size_t used = std::mbrtowc(character, &byte, 1, &shift);
    if (used <= 1) return 1;
    if (used == static_cast<size_t>(-1)) {  // no character: shown as what stands for one
      *character = L'\uFFFD';
      return 1;
    }
  }
}

LineEditor::LineEditor(std::function<bool()> idle) : state_(std::make_unique<State>()) {
  state_->idle = std::move(idle);
  // Characters beyond ASCII need a multi-byte locale; a machine without one set gets plain UTF-8.
  if (std::setlocale(LC_CTYPE, "") == nullptr || std::string_view(std::setlocale(LC_CTYPE, nullptr)) == "C")
    std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->editor = el_init("sluice", stdin, stdout, stderr);
  state_->history = history_init();
  history(state_->history, &state_->event, H_SETSIZE, static_cast<int>(kHistoryEntries));
  el_set(state_->editor, EL_CLIENTDATA, state_.get());
  el_set(state_->editor, EL_PROMPT, State::prompt_of);
  el_set(state_->editor, EL_GETCFN, State::read_character);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
}

LineEditor::~LineEditor() {
  history_end(state_->history);
  el_end(state_->editor);
}

LineEditor::End LineEditor::read_one(const std::string& prompt, std::string& line) {
  state_->prompt = prompt;
  state_->leave_line_mode();
  int count = 0;
  const char* typed = el_gets(state_->editor, &count);
  if (interrupted()) return End::interrupted;
  if (typed == nullptr || count <= 0) return End::closed;
  line = typed;
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return End::line;
}

LineEditor::End LineEditor::read(const std::string& prompt, PromptLines& typed) {
  std::string line;
  End end = read_one(prompt, line);
  while (end == End::line && !typed.add(line)) end = read_one("... ", line);
  if (end == End::line) remember(typed.text());
  return end;
}

void LineEditor::remember(const std::string& entry) {
  if (!entry.empty()) history(state_->history, &state_->event, H_ENTER, entry.c_str());
}

}  // namespace sluice

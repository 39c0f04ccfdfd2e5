#include "app/run/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/environment.h"
#include "app/cli/interrupt.h"
#include "app/run/chat_history.h"
#include "base/text.h"
#include "base/unicode.h"

namespace sluice {

namespace {

constexpr long kIdleNanoseconds = 5'000'000;  // between two calls
constexpr const char* kPasteOn = "\x1b[?2004h";
constexpr const char* kPasteOff = "\x1b[?2004l";
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr std::string_view kInsertPrefill = "\x1b[9999~";  // no key sends it
constexpr size_t kMostShownPaste = 1000;                   // bytes of a paste that stand in the line
constexpr size_t kMaxPaste = size_t{64} << 20;
constexpr size_t kMaxCompletions = 100;  // that are shown

std::string paste_mark(size_t number, const std::string& text) {
  return cat("[paste ", number, ": ", 1 + std::ranges::count(text, '\n'), " lines]");
}

// What all words begin with.
std::string common_begin(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    const auto differs = std::ranges::mismatch(common, word);
    common.erase(differs.in1, common.end());
  }
  while (!common.empty() && incomplete_tail(common) > 0) common.pop_back();
  return common;
}

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string prompt;
  std::function<bool()> idle;
  Completer complete;
  std::string queued;               // bytes that are read before the terminal's
  std::string prefill;              // put into the line when kInsertPrefill is read
  std::vector<std::string> pastes;  // that the line stands for
  bool is_dumb = false;             // knows no escape sequences
  int typed_ahead = 0;              // bytes of input that were there before the terminal left its own line mode

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
  std::string read_paste();
  std::string with_pastes(std::string line) const;
  void bind_keys() const;
  static unsigned char paste(EditLine* editor, int);
  static unsigned char insert_prefill(EditLine* editor, int);
  static unsigned char insert_newline(EditLine* editor, int);
  static unsigned char tab(EditLine* editor, int);
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
  if (!queued.empty()) {
    byte = queued.front();
    queued.erase(0, 1);
    return 1;
  }
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

// What the terminal sends up to the end of a paste. Its lines end with returns.
std::string LineEditor::State::read_paste() {
  std::string text;
  for (char byte = 0; text.size() < kMaxPaste && !ends_with(text, kPasteEnd) && read_byte(byte) == 1;) text += byte;
  if (ends_with(text, kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  return replace_invalid_utf8(lines);
}

std::string LineEditor::State::with_pastes(std::string line) const {
  for (size_t i = 0; i < pastes.size(); ++i) {
    const std::string mark = paste_mark(i + 1, pastes[i]);
    if (const size_t at = line.find(mark); at != std::string::npos) line.replace(at, mark.size(), pastes[i]);
  }
  return line;
}

unsigned char LineEditor::State::paste(EditLine* editor, int) {
  State& state = *of(editor);
  std::string text = state.read_paste();
  if (text.size() > kMostShownPaste) {
    state.pastes.push_back(std::move(text));
    text = paste_mark(state.pastes.size(), state.pastes.back());
  }
  return text.empty() || el_insertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::State::insert_prefill(EditLine* editor, int) {
  const std::string text = std::exchange(of(editor)->prefill, {});
  return text.empty() || el_insertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::State::insert_newline(EditLine* editor, int) {
  return el_insertstr(editor, "\n") == 0 ? CC_REFRESH : CC_ERROR;
}

// Adds what is certain; shows the choices where nothing is.
unsigned char LineEditor::State::tab(EditLine* editor, int) {
  const LineInfo* line = el_line(editor);
  const std::string before(line->buffer, line->cursor);
  const WordChoices found = of(editor)->complete(before);
  const std::string typed = before.substr(std::min(found.begin, before.size()));
  if (found.words.empty()) return CC_REFRESH_BEEP;
  std::string whole = common_begin(found.words);
  if (found.words.size() == 1 && !ends_with(whole, "/")) whole += ' ';
  if (whole.size() > typed.size() && starts_with(whole, typed))
    return el_insertstr(editor, whole.substr(typed.size()).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  std::fputc('\n', stdout);
  for (size_t i = 0; i < found.words.size() && i < kMaxCompletions; ++i)
    std::fprintf(stdout, "%s%s", i == 0 ? "" : "  ", printable(found.words[i], 200).c_str());
  std::fputs(found.words.size() > kMaxCompletions ? "  ...\n" : "\n", stdout);
  std::fflush(stdout);
  return CC_REDISPLAY;
}

LineEditor::LineEditor(std::function<bool()> idle, Completer complete) : state_(std::make_unique<State>()) {
  state_->idle = std::move(idle);
  state_->complete = std::move(complete);
  const std::string term = terminal_variables().term;
  state_->is_dumb = term.empty() || term == "dumb";
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
  state_->bind_keys();
}

// By wide strings, which libedit keeps as they are: of narrow ones it makes copies that it never frees.
void LineEditor::State::bind_keys() const {
  const auto bind = [&](const wchar_t* name, const wchar_t* help, unsigned char (*run)(EditLine*, int),
                        std::initializer_list<const wchar_t*> keys) {
    el_wset(editor, EL_ADDFN, name, help, run);
    for (const wchar_t* key : keys) el_wset(editor, EL_BIND, key, name, nullptr);
  };
  bind(L"sluice-paste", L"Takes a paste", State::paste, {L"\x1b[200~"});
  bind(L"sluice-prefill", L"Takes a text to edit", State::insert_prefill,
       {std::wstring(kInsertPrefill.begin(), kInsertPrefill.end()).c_str()});
  bind(L"sluice-newline", L"Begins a line", State::insert_newline, {L"\x1b\r", L"\x1b\n"});
  bind(L"sluice-complete", L"Completes a word", State::tab, {L"\t"});
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_set(editor, EL_BIND, "^S", "em-inc-search-next", nullptr);
}

LineEditor::~LineEditor() {
  history_end(state_->history);
  el_end(state_->editor);
}

LineEditor::End LineEditor::read_one(const std::string& prompt, std::string& line) {
  state_->prompt = prompt;
  state_->pastes.clear();
  state_->leave_line_mode();
  if (!state_->is_dumb) static_cast<void>(!::write(STDOUT_FILENO, kPasteOn, std::strlen(kPasteOn)));
  int count = 0;
  const char* typed = el_gets(state_->editor, &count);
  if (!state_->is_dumb) static_cast<void>(!::write(STDOUT_FILENO, kPasteOff, std::strlen(kPasteOff)));
  if (interrupted()) return End::interrupted;
  if (typed == nullptr || count <= 0) return End::closed;
  line = typed;
  if (!line.empty() && line.back() == '\n') line.pop_back();
  line = state_->with_pastes(std::move(line));
  return End::line;
}

LineEditor::End LineEditor::read(const std::string& prompt, PromptLines& typed) {
  std::string line;
  End end = read_one(prompt, line);
  while (end == End::line && !typed.add(line)) end = read_one("... ", line);
  if (end == End::line) remember(typed.text());
  return end;
}

void LineEditor::prefill(const std::string& text) {
  state_->prefill = text;
  state_->queued = kInsertPrefill;
}

void LineEditor::remember(const std::string& entry) {
  if (!entry.empty()) history(state_->history, &state_->event, H_ENTER, entry.c_str());
}

}  // namespace sluice

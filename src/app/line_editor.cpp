#include "app/line_editor.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>

#include "app/interrupt.h"
#include "base/text.h"

namespace sluice {

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string prompt;

  static char* prompt_of(EditLine* editor) {
    void* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return static_cast<State*>(state)->prompt.data();
  }
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  // Characters beyond ASCII need a multi-byte locale; a machine without one set gets plain UTF-8.
  if (std::setlocale(LC_CTYPE, "") == nullptr || std::string_view(std::setlocale(LC_CTYPE, nullptr)) == "C") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  state_->editor = el_init("sluice", stdin, stdout, stderr);
  state_->history = history_init();
  history(state_->history, &state_->event, H_SETSIZE, 500);
  el_set(state_->editor, EL_CLIENTDATA, state_.get());
  el_set(state_->editor, EL_PROMPT, State::prompt_of);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
}

LineEditor::~LineEditor() {
  history_end(state_->history);
  el_end(state_->editor);
}

LineEditor::End LineEditor::read_one(const std::string& prompt, std::string& line) {
  state_->prompt = prompt;
  int count = 0;
  const char* typed = el_gets(state_->editor, &count);
  if (interrupted()) {
    return End::interrupted;
  }
  if (typed == nullptr || count <= 0) {
    return End::closed;
  }
  line = typed;
  if (!line.empty() && line.back() == '\n') {
    line.pop_back();
  }
  return End::line;
}

LineEditor::End LineEditor::read(const std::string& prompt, std::string& line) {
  line.clear();
  std::string piece;
  End end = read_one(prompt, piece);
  while (end == End::line && ends_with(piece, "\\")) {
    piece.back() = '\n';
    line += piece;
    end = read_one("... ", piece);
  }
  line += piece;
  if (end == End::line && !line.empty()) {
    history(state_->history, &state_->event, H_ENTER, line.c_str());
  }
  return end;
}

}  // namespace sluice

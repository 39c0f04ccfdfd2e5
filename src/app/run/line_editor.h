// A line typed on a terminal, with editing and a history, through libedit (its header stays in line_editor.cpp).
//
// A paste is one piece of text, lines and all, where the terminal says where it begins and ends (bracketed paste). A
// long one stands as "[paste 1: 212 lines]" in the line and is put back when the line is taken. Alt-Enter begins a line
// in the text, Ctrl-R searches the history, Tab completes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/run/chat_completion.h"
#include "app/run/prompt_lines.h"

namespace sluice {

class LineEditor {
 public:
  // `idle` is called repeatedly while nothing is typed, as long as it returns that it has more to do.
  LineEditor(std::function<bool()> idle, Completer complete);
  ~LineEditor();

  enum class End { line, interrupted, closed };  // Ctrl-C; Ctrl-D or the end of input
  // As many lines as `typed` wants.
  End read(const std::string& prompt, PromptLines& typed);
  // The text that the next line begins with, to be edited.
  void prefill(const std::string& text);
  // An older entry of the history.
  void remember(const std::string& entry);

 private:
  End read_one(const std::string& prompt, std::string& line);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice

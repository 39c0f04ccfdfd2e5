// A line typed on a terminal, with editing and a history, through libedit (its header stays in line_editor.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/run/prompt_lines.h"

namespace sluice {

class LineEditor {
 public:
  // `idle` is called repeatedly while nothing is typed, as long as it returns that it has more to do.
  explicit LineEditor(std::function<bool()> idle);
  ~LineEditor();

  enum class End { line, interrupted, closed };  // Ctrl-C; Ctrl-D or the end of input
  // As many lines as `typed` wants.
  End read(const std::string& prompt, PromptLines& typed);
  // An older entry of the history.
  void remember(const std::string& entry);

 private:
  End read_one(const std::string& prompt, std::string& line);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice

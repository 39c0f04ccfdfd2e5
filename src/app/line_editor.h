// A line typed on a terminal, with editing and a history, through libedit (its header stays in line_editor.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace sluice {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();

  enum class End { line, interrupted, closed };  // Ctrl-C; Ctrl-D or the end of input
  // One line without its end; a line ending in a backslash goes on in the next.
  End read(const std::string& prompt, std::string& line);

 private:
  End read_one(const std::string& prompt, std::string& line);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice

// A command's standard output, standard error and standard input, and whether each is a terminal. No other place writes
// to them. A failed write to standard output is remembered and ends the command.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

// For a terminal: begin and end dim text, and erase the line.
inline constexpr const char* kDim = "\x1b[2m";
inline constexpr const char* kPlain = "\x1b[0m";
inline constexpr const char* kClearLine = "\r\x1b[K";

class Console {
 public:
  Console();

  // Written at once, so that an answer appears while it is generated.
  void out(std::string_view text);
  void table(std::string_view text);  // as out(), in lines that fit the terminal
  void err(std::string_view text);
  void remark(std::string_view line);  // on standard error, dim on a terminal
  void json(const Json& value);        // indented, with a line's end
  // The first failure of out(). A reader that went away (cancelled) is not our fault: see main.cpp.
  const Status& status() const { return status_; }

  // The width of the terminal at standard output, as it is now; 0 where there is none or it is unknown.
  size_t columns() const;

  bool out_is_terminal() const { return out_is_terminal_; }
  bool err_is_terminal() const { return err_is_terminal_; }
  bool in_is_terminal() const { return in_is_terminal_; }
  // All of standard input, at most `limit` bytes.
  Result<std::string> read_in(size_t limit);
  // What somebody types, up to the end of the line.
  Result<std::string> read_line();

 private:
  bool out_is_terminal_, err_is_terminal_, in_is_terminal_;
  Status status_;
};

}  // namespace sluice

// Joins the lines typed at the chat's prompt.
//
//   a line ending in \           goes on in the next
//   """text ... text"""          is one prompt, all its lines; never a command
//   /system """text ... """      the same for what a command is given
#pragma once

#include <string>
#include <string_view>

namespace sluice {

class PromptLines {
 public:
  // False when another line is wanted.
  bool add(std::string_view line);
  const std::string& text() const { return text_; }
  bool quoted() const { return quoted_; }  // the whole text stood between """

 private:
  bool add_quoted(std::string_view line);

  std::string text_;
  bool begun_ = false, in_block_ = false, quoted_ = false;
};

}  // namespace sluice

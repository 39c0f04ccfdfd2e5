// Splits an answer into text and calls of tools while it streams in, wherever pieces begin and end.
//
// A call comes out when it is complete. Text that cannot be read as a call comes out as text, unchanged, so nothing is
// lost. Blanks before a call and between calls belong to neither. Where the markers are tokens of the vocabulary, only
// those tokens count, so an answer may mention a marker in plain letters.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/dialects/tool_syntax.h"

namespace sluice {

using ToolPiece = std::variant<std::string, ToolCall>;

class ToolCallSplitter {
 public:
  enum class Markers : uint8_t { in_text, as_tokens };

  // The syntax must outlive the splitter. `tools`: those of the request, as OpenAI's list.
  ToolCallSplitter(const ToolSyntax& syntax, Json tools, Markers markers);

  // The pieces that the text settles. `is_token`: the text is a whole token of the vocabulary that is no plain text.
  std::vector<ToolPiece> push(std::string_view text, bool is_token = false);
  // The rest. A call that was cut is text, unless it can be read.
  std::vector<ToolPiece> flush();

  bool in_call() const { return in_call_; }
  bool is_open(std::string_view token) const { return token == syntax_.open; }
  bool is_marker(std::string_view token) const;

 private:
  void scan();
  void take_marker(std::string_view marker);
  void pass(std::string_view text);
  void guard_text();
  void end_call(std::string_view close);
  void show(std::string_view text);

  const ToolSyntax& syntax_;
  Json tools_;
  Markers markers_;
  std::vector<std::string_view> outside_;  // markers that mean something outside a call
  std::string held_;                       // in_text: may begin a marker
  std::string blanks_;                     // a call may follow
  std::string body_;                       // of the call so far
  size_t text_begin_ = 0;                  // in it: behind the last marker
  bool is_guarded_ = false;                // letters in it spell a marker
  bool in_call_ = false;
  bool any_call_ = false;
  std::vector<ToolPiece> out_;
};

}  // namespace sluice

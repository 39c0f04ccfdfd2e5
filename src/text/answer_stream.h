// Turns generated ids into the text to show: whole characters, thinking and calls of tools separated from the answer,
// cut at stop strings.
//
// Ids that end an answer are not shown, and neither are special tokens, except the markers of the dialect. Stop strings
// count in the answer's text only, not in thinking and calls. Calls are looked for only where the request has tools. A
// token that opens a call also ends a thought, because some models forget to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/dialects/channel_splitter.h"
#include "text/dialects/dialect.h"
#include "text/dialects/tool_call_splitter.h"
#include "text/dialects/tool_syntax.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace sluice {

// The tools of a request.
struct AnswerTools {
  const ToolSyntax* syntax = nullptr;  // null: calls stay text
  Json tools = {};                     // OpenAI's list
};

class AnswerStream {
 public:
  using Show = std::function<void(Channel, const std::string&)>;
  using ShowCall = std::function<void(ToolCall)>;

  // `tokenizer` and `dialect` must outlive the stream. `prompt` is the rendered text, because it decides whether the
  // answer begins inside a thought.
  AnswerStream(const Tokenizer& tokenizer, const ChatDialect& dialect, const std::string& prompt,
               std::vector<std::string> stops, Show show);
  // From the beginning of an answer.
  void expect_calls(const AnswerTools& tools, ShowCall show);

  // False when a stop string has ended the answer.
  bool push(int32_t id);
  // Shows the text that was held back, unless a stop string has ended the answer.
  void finish();

  // What the last pushed id was part of. Markers, ends and calls are neither.
  std::optional<Channel> last_text() const { return last_text_; }

  bool stopped() const { return stops_.stopped().has_value(); }
  std::optional<size_t> stop() const { return stops_.stopped(); }  // the index of the stop string
  const std::string& answer() const { return answer_; }
  const std::string& thinking() const { return thinking_; }
  // Ids that were pushed within a thought, its markers included.
  uint32_t thinking_tokens() const { return thinking_tokens_; }

 private:
  void push_shown(int32_t id);
  void push_text(std::string_view text);
  void push_special(int32_t id, const std::string& token);
  void take(const std::vector<ChannelText>& texts);
  void take(std::vector<ToolPiece> pieces);
  void show(Channel channel, const std::string& text);

  const Tokenizer* tokenizer_;
  const ChatDialect* dialect_;
  Detokenizer detokenizer_;
  ChannelSplitter splitter_;
  std::optional<ToolCallSplitter> calls_;
  StopStrings stops_;
  Show show_;
  ShowCall show_call_;
  std::string answer_, thinking_;
  uint32_t thinking_tokens_ = 0;
  std::optional<Channel> last_text_;
};

}  // namespace sluice

// Turns generated ids into the text to show: whole characters, thinking separated from the answer, cut at stop strings.
//
// Ids that end an answer are not shown, and neither are special tokens, except the markers of the dialect. Stop strings
// count in the answer only, not in thinking.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/dialects/channel_splitter.h"
#include "text/dialects/dialect.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace sluice {

class AnswerStream {
 public:
  using Show = std::function<void(Channel, const std::string&)>;

  // `tokenizer` and `dialect` must outlive the stream. `prompt` is the rendered text, because it decides whether the
  // answer begins inside a thought.
  AnswerStream(const Tokenizer& tokenizer, const ChatDialect& dialect, const std::string& prompt,
               std::vector<std::string> stops, Show show);

  // False when a stop string has ended the answer.
  bool push(int32_t id);
  // Shows the text that was held back, unless a stop string has ended the answer.
  void finish();

  bool stopped() const { return stops_.stopped().has_value(); }
  const std::string& answer() const { return answer_; }
  const std::string& thinking() const { return thinking_; }

 private:
  void take(const std::vector<ChannelText>& texts);
  void show(Channel channel, const std::string& text);

  const Tokenizer* tokenizer_;
  const ChatDialect* dialect_;
  Detokenizer detokenizer_;
  ChannelSplitter splitter_;
  StopStrings stops_;
  Show show_;
  std::string answer_, thinking_;
};

}  // namespace sluice

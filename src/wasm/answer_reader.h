// An answer's tokens as somebody reads them while it is made: AnswerStream's pieces, gathered between two calls.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "chat/text_parts.h"
#include "text/answer_stream.h"

namespace sluice::wasm {

class AnswerReader {
 public:
  // `text` outlives the reader; `prompt` as AnswerStream takes it.
  AnswerReader(const TextParts& text, const std::string& prompt, std::vector<std::string> stops)
      : stream_(text.tokenizer, *text.dialect, prompt, std::move(stops),
                [this](Channel channel, const std::string& piece) {
                  (channel == Channel::thinking ? thinking_ : text_) += piece;
                }) {}
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  // No tokens: the answer has ended. What follows a stop string is not shown.
  Json read(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens)
      if (!stream_.push(token)) break;
    if (tokens.empty()) stream_.finish();
    return Json::Object{
        {"text", std::exchange(text_, {})}, {"thinking", std::exchange(thinking_, {})}, {"stopped", stream_.stopped()}};
  }

 private:
  std::string text_, thinking_;
  AnswerStream stream_;
};

}  // namespace sluice::wasm

// AnswerWriter: the reply to one request in the shape of its API, whole or as a stream.
//
// News of the parts come in any interleaving. A stream is stream_begin() before the first news, stream() for each, then
// stream_end() or stream_failure(). A stream may also be a failure alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/turn.h"
#include "serve/answer_queue.h"
#include "serve/refusal.h"

namespace sluice {

// A piece of an answer in its order: text, a thought or a call.
struct AnswerPiece {
  enum class Kind : uint8_t { text, thinking, call } kind{};
  std::string text;
  ToolCall call = {};
  size_t log_probs_end = 0;  // of AnsweredPart::log_probs, behind those of this piece
};

// A part of a request with everything that its news have said.
struct AnsweredPart {
  std::vector<AnswerPiece> pieces = {};  // neighbours differ in kind, or are calls
  size_t calls = 0;
  std::vector<TokenLogProb> log_probs = {};  // of the tokens whose text is shown
  std::vector<TokenLogProb> held = {};       // of those whose text is not shown yet
  DoneEvent done = {};

  void take(const AnswerNews& news);
  std::string text() const;  // all pieces of text
  std::string thinking() const;
  std::span<const TokenLogProb> log_probs_of(size_t piece) const;
};

// The sum over all parts. A prompt with several choices counts once.
Usage total_usage(const std::vector<AnsweredPart>& parts, uint32_t choices);

// Of a reply, as several APIs show it.
struct ReplyFacts {
  std::string id;           // unique in this process, without a prefix
  int64_t created = 0;      // seconds since 1970
  int64_t nanoseconds = 0;  // of that second
  std::string model;        // as the request named it
  std::string system_fingerprint;
  uint32_t choices = 1;  // of each prompt
  bool unloads = false;  // the request only asked for the model to go
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual std::string_view stream_type() const { return "text/event-stream"; }
  virtual std::string_view keep_alive() const { return ": waiting\n\n"; }
  virtual std::string comment(const std::string& line) const;  // "" where the API's streams have none
  virtual std::string stream_begin() { return {}; }
  // `part`: with the news taken in.
  virtual std::string stream(const AnswerNews& news, const AnsweredPart& part) = 0;
  virtual std::string stream_end(const std::vector<AnsweredPart>& parts) = 0;
  virtual std::string stream_failure(const Refusal& refusal) = 0;
  virtual Json whole(const std::vector<AnsweredPart>& parts) = 0;

  void set(ReplyFacts facts) { facts_ = std::move(facts); }

 protected:
  ReplyFacts facts_;
};

std::string sse_text(const Json& data);                          // data: {...}
std::string sse_text(std::string_view event, const Json& data);  // event: ..., data: {...}

}  // namespace sluice

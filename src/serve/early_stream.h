// EarlyStream: a stream whose head goes out before its request is read, because the model has to be loaded first. What
// is wrong with the request, or with the load, is then an event of the stream. Lives on the HTTP server's thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/answer_writer.h"
#include "serve/http/http.h"
#include "serve/refusal.h"

namespace sluice {

// Sends the head of a stream of `type`, with the headers that every stream has.
void begin_stream(Exchange& exchange, ServerReply head, std::string_view type, std::string keep_alive);
// The same for what `writer` writes.
void begin_stream(Exchange& exchange, ServerReply head, const AnswerWriter& writer);

class EarlyStream {
 public:
  // `writer`: of the API, with the facts of this reply.
  EarlyStream(std::shared_ptr<Exchange> exchange, std::unique_ptr<AnswerWriter> writer, std::string id)
      : exchange_(std::move(exchange)), writer_(std::move(writer)), id_(std::move(id)) {}

  void begin(ServerReply head) { begin_stream(*exchange_, std::move(head), *writer_); }
  // Ends the stream.
  void fail(const Refusal& refusal);
  // The header that names the fields without effect, which comes too late for the head.
  void tell(const HttpHeader& header) { exchange_->write(writer_->comment(header.name + ": " + header.value)); }
  const std::string& id() const { return id_; }  // as ReplyFacts::id

 private:
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<AnswerWriter> writer_;
  std::string id_;
};

}  // namespace sluice

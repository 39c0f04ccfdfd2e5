#include "serve/early_stream.h"

#include <utility>

namespace sluice {

void begin_stream(Exchange& exchange, ServerReply head, std::string_view type, std::string keep_alive) {
  head.headers.push_back({"content-type", std::string(type)});
  head.headers.push_back({"cache-control", "no-cache"});
  head.headers.push_back({"x-accel-buffering", "no"});
  exchange.begin_stream(std::move(head), std::move(keep_alive));
}

void begin_stream(Exchange& exchange, ServerReply head, const AnswerWriter& writer) {
  begin_stream(exchange, std::move(head), writer.stream_type(), std::string(writer.keep_alive()));
}

void EarlyStream::fail(const Refusal& refusal) {
  exchange_->write(writer_->stream_failure(refusal));
  exchange_->end_stream();
}

}  // namespace sluice

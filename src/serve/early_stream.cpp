#include "serve/early_stream.h"

#include <utility>

namespace sluice {

void begin_stream(Exchange& exchange, const AnswerWriter& writer, ServerReply head) {
  head.headers.push_back({"content-type", std::string(writer.stream_type())});
  head.headers.push_back({"cache-control", "no-cache"});
  head.headers.push_back({"x-accel-buffering", "no"});
  exchange.begin_stream(std::move(head), std::string(writer.keep_alive()));
}

void EarlyStream::fail(const Refusal& refusal) {
  exchange_->write(writer_->stream_failure(refusal));
  exchange_->end_stream();
}

}  // namespace sluice

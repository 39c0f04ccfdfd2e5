// AnswerExchange: one request's way from the queue back to its client, whole or as a stream. Lives on the HTTP server's
// thread; the engine's news are posted there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/answer_queue.h"
#include "serve/answer_writer.h"
#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/service.h"

namespace sluice {

class AnswerExchange final : public std::enable_shared_from_this<AnswerExchange> {
 public:
  // `head`: the headers of the reply, whole or as a stream. `is_begun`: that of a stream was sent. `model`: for
  // metrics.
  AnswerExchange(std::shared_ptr<Exchange> exchange, std::unique_ptr<AnswerWriter> writer, ApiFamily family,
                 bool is_stream, bool is_begun, ServerReply head, std::string model, AnswerQueue& queue,
                 Metrics& metrics)
      : exchange_(std::move(exchange)),
        writer_(std::move(writer)),
        family_(family),
        is_stream_(is_stream),
        is_begun_(is_begun),
        head_(std::move(head)),
        model_(std::move(model)),
        queue_(&queue),
        metrics_(&metrics) {}

  // Refused where the queue has no place.
  Checked start(std::vector<AnswerJob> jobs, Claim claim);

 private:
  void take(const AnswerNews& news);
  void fail(const Error& failure);
  void end();
  void note_usage();

  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<AnswerWriter> writer_;
  ApiFamily family_;
  bool is_stream_, is_begun_;
  ServerReply head_;
  std::string model_;  // that metrics name
  AnswerQueue* queue_;
  Metrics* metrics_;
  uint64_t request_ = 0;
  std::vector<AnsweredPart> parts_;
  size_t ended_ = 0;  // of the parts
  bool is_over_ = false;
};

}  // namespace sluice

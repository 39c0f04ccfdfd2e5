#include "serve/answer_exchange.h"

#include "serve/early_stream.h"

namespace sluice {

Checked AnswerExchange::start(std::vector<AnswerJob> jobs, Claim claim) {
  parts_.resize(jobs.size());
  // The exchange lives as long as its sink, and the queue drops the sink when the request has ended.
  const auto post_news = [self = shared_from_this()](AnswerNews news) {
    self->exchange_->post([self, news = std::move(news)] { self->take(news); });
  };
  TRY(request_, queue_->submit(std::move(jobs), claim, post_news));
  exchange_->on_gone([queue = queue_, request = request_] { queue->cancel(request); });
  if (!is_stream_) return Fine{};
  if (!is_begun_) begin_stream(*exchange_, std::move(head_), *writer_);
  exchange_->write(writer_->stream_begin());
  return Fine{};
}

void AnswerExchange::take(const AnswerNews& news) {
  if (is_over_) return;
  AnsweredPart& part = parts_[news.part];
  part.take(news);
  if (news.is_last()) {
    ++ended_;
    metrics_->count(model_, news);
  }
  if (exchange_->is_gone()) return;
  if (news.failure) return fail(*news.failure);
  if (is_stream_) exchange_->write(writer_->stream(news, part));
  if (ended_ == parts_.size()) end();
}

// The other parts of the request go with it.
void AnswerExchange::fail(const Error& failure) {
  is_over_ = true;
  queue_->cancel(request_);
  Refusal refusal = refusal_of(failure);
  if (!is_stream_) return exchange_->reply(refusal_reply(family_, refusal));
  exchange_->write(writer_->stream_failure(refusal));
  exchange_->end_stream();
}

void AnswerExchange::end() {
  is_over_ = true;
  note_usage();
  if (is_stream_) {
    exchange_->write(writer_->stream_end(parts_));
    return exchange_->end_stream();
  }
  head_.headers.push_back({"content-type", kJsonType});
  head_.body = write_json(writer_->whole(parts_)) + "\n";
  exchange_->reply(std::move(head_));
}

void AnswerExchange::note_usage() {
  const Usage usage = total_usage(parts_, static_cast<uint32_t>(parts_.size()));
  exchange_->note("prompt_tokens", usage.prompt_tokens);
  exchange_->note("cached_tokens", usage.reused_tokens);
  exchange_->note("answer_tokens", usage.answer_tokens);
}

}  // namespace sluice

#include "serve/answer_places.h"

#include <algorithm>
#include <utility>

namespace sluice {

uint32_t AnswerPlaces::share() const {
  return clients_ == 1 ? waiting_ : std::max(waiting_ / 2, std::min(waiting_, 1U));
}

Checked AnswerPlaces::take(size_t client, size_t parts) {
  Count& its = of_client_[client];
  const size_t known = all_.known + parts, most = size_t{running_} + waiting_;
  if (known > most)
    return Refusal{.status = 503,
                   .message = "the queue is full: want the same request later",
                   .code = "queue_full",
                   .retry = true};
  // Parts that free running places will take do not count as waiting.
  const size_t all_wait = known - std::min<size_t>(known, running_);
  const size_t waits = std::min(all_wait, its.known - its.runs + parts);
  if (clients_ > 1 && waits > std::max<size_t>(waiting_ - all_wait, 1))
    return Refusal{.status = 429,
                   .message = cat("this key's requests hold ", waits - std::min(waits, parts), " of the queue's ",
                                  waiting_, " places: want the same request when some of them have ended"),
                   .code = "queue_share_full",
                   .retry = true};
  its.known += static_cast<uint32_t>(parts);
  all_.known += static_cast<uint32_t>(parts);
  return Fine{};
}

void AnswerPlaces::begin(size_t client) {
  ++of_client_[client].runs;
  ++all_.runs;
  of_client_[client].last_begin = ++all_.last_begin;
}

void AnswerPlaces::end(size_t client) {
  --of_client_[client].runs;
  --all_.runs;
  leave(client);
}

void AnswerPlaces::leave(size_t client) {
  --of_client_[client].known;
  --all_.known;
}

bool AnswerPlaces::comes_before(size_t a, size_t b) const {
  const auto turn = [this](size_t client) { return std::pair(of_client_[client].runs, of_client_[client].last_begin); };
  return turn(a) < turn(b);
}

}  // namespace sluice

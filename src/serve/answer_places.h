// AnswerPlaces: the running and waiting places of one model, and who of several clients gets the next one. A client is
// an API key, known by its index; without keys there is one client.
//
// - A place that becomes free goes to the client with the fewest running parts; among those to the one that got its
//   last place longest ago. So a client with a long queue does not hold up another one's first request, not even where
//   one part runs at a time.
// - A client may hold as many waiting places as it then leaves free, but always one. Alone it holds half of them, each
//   of two busy clients a third, and there is room for the next one. A single client may hold all of them.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "serve/refusal.h"

namespace sluice {

// Who asks for places, and how urgently.
struct Claim {
  size_t client = 0;
  int32_t priority = 0;  // among the client's own parts; lower ones run earlier
};

class AnswerPlaces {
 public:
  AnswerPlaces(uint32_t running, uint32_t waiting, size_t clients)
      : running_(running), waiting_(waiting), clients_(clients), of_client_(clients) {}

  // The most parts that one request may have.
  size_t most_parts() const { return running_ + share(); }
  // Takes waiting places for all parts, or none. Refused with status 503 where the queue is full, with 429 where the
  // client holds too many of its places; both may be tried again.
  Checked take(size_t client, size_t parts);
  void begin(size_t client);  // one of its parts runs now
  void end(size_t client);    // a running part has ended
  void leave(size_t client);  // a waiting part goes

  bool has_free_place() const { return all_.runs < running_; }
  // Whether `a` gets a free place before `b`; both may be the same client.
  bool comes_before(size_t a, size_t b) const;
  bool is_idle() const { return all_.known == 0; }
  uint32_t running() const { return all_.runs; }
  uint32_t waiting() const { return all_.known - all_.runs; }

 private:
  struct Count {
    uint32_t known = 0;       // parts that have not ended
    uint32_t runs = 0;        // of those
    uint64_t last_begin = 0;  // counts begin(); 0: none yet
  };
  uint32_t share() const;  // of waiting places that a client alone may hold

  uint32_t running_, waiting_;
  size_t clients_;
  Count all_;
  std::vector<Count> of_client_;
};

}  // namespace sluice

// KeptStates: an engine's states in the state store. A state is the computed part of a prefix of a history.
//
// Another thread finds and reads states, for one request at a time, so no step waits for the disk. A state that was
// read becomes a snapshot of the cache, and the request goes on from it like any other.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/task_queue.h"
#include "engine/jobs.h"
#include "engine/state/page_files.h"
#include "engine/state/sequence_files.h"
#include "engine/state/state_store.h"

namespace sluice {

class KeptStates {
 public:
  // All outlive it.
  KeptStates(StateStore& store, PageFiles& pages, Cache& cache, ComputedBy by)
      : store_(&store), pages_(&pages), cache_(&cache), by_(std::move(by)) {}
  ~KeptStates();

  // Looks for the longest kept state of at most `bound` positions that is longer than the part of `text` in the cache.
  // False: there can be none. Otherwise advance() says when the search has ended. `text` must not move until then, or
  // until stop().
  bool recall(RequestId request, const CachedHistory& text, uint32_t bound);
  bool busy() const { return active_ || !waiting_.empty(); }
  struct Recalled {
    RequestId request = 0;
    uint32_t length = 0;  // of the snapshot that was read; 0: none
  };
  // Takes the next steps that need no waiting. Returns a recall that has ended.
  std::optional<Recalled> advance();
  // Takes the completion of a page that was written to the device; false: it belongs to something else.
  bool take(const Completion& completion);
  void stop(RequestId request);
  // Stops reading a state, so that its pages are freed soon. The recall then ends with nothing. False: no state is
  // being read.
  bool stop_reading();
  // Marks the pages of `group` that are being filled.
  void mark_pages(uint32_t group, std::vector<bool>& held) const;

  // Writes the snapshots of `text` at `boundaries` to the store, and the one at its last multiple of 64.
  void keep(const CachedHistory& text, const std::vector<uint32_t>& boundaries);

 private:
  struct Waiting {
    RequestId request = 0;
    const CachedHistory* text = nullptr;
    uint32_t bound = 0;
  };
  enum class Stage : uint8_t { finding, reading, writing };
  struct Active {
    RequestId request = 0;
    uint32_t least = 0, most = 0;
    CachedHistory restored;  // the history; has pages from Stage::reading on
    Stage stage = Stage::finding;
    StoredState found = {};
    size_t part = 0;  // of `found`, which is being read
    std::optional<PageReading> pages = {};
    Status status = {};
    std::vector<Ticket> writes = {};
    std::atomic<bool> stop = false;
  };

  // Of states that were computed with these adapters. May be called on any thread.
  StateIdentity identity(const std::string& adapters);
  void begin_task(std::function<void()> task);
  bool begin_next();
  void find();
  std::optional<Recalled> take_found();
  std::optional<Recalled> take_read();
  std::optional<Recalled> take_written();
  void read_on();
  Recalled end(uint32_t length);

  StateStore* store_;
  PageFiles* pages_;
  Cache* cache_;
  ComputedBy by_;
  std::deque<Waiting> waiting_;
  std::unique_ptr<Active> active_;
  std::unique_ptr<TaskQueue> tasks_;  // made by the first recall; the last member: ends before the others that it uses
};

}  // namespace sluice

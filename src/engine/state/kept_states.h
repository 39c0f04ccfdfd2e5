// What an engine keeps in the state store and finds there again: prefixes of histories that an earlier run computed.
//
// Finding and reading are tasks of another thread, one request at a time, so that no step waits for the disk. What was
// read becomes a snapshot of the cache; the request then goes on as any other does.
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

  // Looks for the longest kept state that is longer than what the cache has of `text`, and of at most `bound`
  // positions. False where there can be none; else advance() says when it has ended. `text` stays where it is until
  // then, or until stop().
  bool recall(RequestId request, const CachedHistory& text, uint32_t bound);
  bool busy() const { return active_ || !waiting_.empty(); }
  struct Recalled {
    RequestId request = 0;
    uint32_t length = 0;  // of the snapshot that was read; 0: none
  };
  // Goes on with what can go on now, and says what has ended.
  std::optional<Recalled> advance();
  // A page that the device was given; false: it is of something else.
  bool take(const Completion& completion);
  void stop(RequestId request);
  // The state that is being read must give its pages back; false when there is none. It ends soon, with nothing.
  bool stop_reading();
  // Pages of `group` that are being filled.
  void mark_pages(uint32_t group, std::vector<bool>& held) const;

  // Keeps the snapshots of `text` at `boundaries`, and its whole blocks.
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
    CachedHistory restored;  // the history, and from Stage::reading on pages
    Stage stage = Stage::finding;
    StoredState found = {};
    size_t part = 0;  // of what was found
    std::optional<PageReading> pages = {};
    Status status = {};
    std::vector<Ticket> writes = {};
    std::atomic<bool> stop = false;
  };

  const StateIdentity& identity();  // on any thread
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
  Mutex naming_;
  std::optional<StateIdentity> identity_;  // once somebody asked
  std::deque<Waiting> waiting_;
  std::unique_ptr<Active> active_;
  std::unique_ptr<TaskQueue> tasks_;  // from the first recall on; last: ends before what its task uses
};

}  // namespace sluice

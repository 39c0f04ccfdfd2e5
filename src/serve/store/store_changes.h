// StoreChanges: the changes of a ModelStore that many clients ask for. Each pull has threads of its own, and clients
// who want the same model share it. A pull that nobody waits for any more is stopped. Copies and deletions run one
// after the other on one thread.
//
// pull(), leave(), change(), stop() and finish() are for one thread. Sinks are called on others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/task_queue.h"
#include "serve/store/model_store.h"

namespace sluice {

class StoreChanges {
 public:
  using EndSink = std::function<void(const Checked&)>;
  static constexpr size_t kMostPulls = 4;  // at once

  explicit StoreChanges(ModelStore& store) : store_(&store) {}
  ~StoreChanges() { finish(); }
  StoreChanges(const StoreChanges&) = delete;
  StoreChanges& operator=(const StoreChanges&) = delete;

  // `tell` gets what is new, at most ten times a second; then `end` is called once. The number is for leave(). None:
  // too many models are fetched now, or all was stopped.
  std::optional<uint64_t> pull(const OllamaName& name, PullSink tell, EndSink end);
  // The client hears no more. Does nothing when its pull has ended.
  void leave(uint64_t client);
  void change(std::function<Checked(ModelStore&)> work, EndSink end);
  // Ends all pulls soon, and takes no more.
  void stop();
  // The same, and waits for the threads.
  void finish();

 private:
  struct Client {
    PullSink tell;
    EndSink end;
  };
  struct Pull {
    OllamaName name;
    std::atomic<bool> stop = false;
    std::map<uint64_t, Client> clients = {};
    PullProgress latest = {};
    bool is_told = true;  // the latest, to all clients
    std::thread thread = {};
    bool has_ended = false;
  };

  void run(Pull& pull);
  void take(Pull& pull, const PullProgress& news);
  static void tell(Pull& pull);
  void join_ended();

  ModelStore* store_;
  std::condition_variable wake_;  // a pull has ended
  std::mutex mutex_;              // guards what follows, up to the empty line
  std::list<Pull> pulls_;
  uint64_t last_client_ = 0;
  bool stopped_ = false;

  uint64_t last_change_ = 0;
  TaskQueue changes_{1};
};

}  // namespace sluice

// StoreRoutes: the requests of Ollama's API that change the store of models: POST /api/pull and /api/copy, DELETE
// /api/delete. Of the HTTP server's thread.
#pragma once

#include <memory>

#include "serve/http/http.h"
#include "serve/store/store_changes.h"

namespace sluice {

class StoreRoutes {
 public:
  // The store outlives this.
  explicit StoreRoutes(ModelStore& store) : changes_(store) {}

  // Lines of progress, or one reply at the end. A client that leaves takes part in the pull no longer.
  void pull(const std::shared_ptr<Exchange>& exchange);
  void copy(const std::shared_ptr<Exchange>& exchange);
  void remove(const std::shared_ptr<Exchange>& exchange);

  void stop() { changes_.stop(); }      // pulls end soon, and their clients hear it
  void finish() { changes_.finish(); }  // waits for what is under way

 private:
  StoreChanges changes_;
};

}  // namespace sluice

// ModelStore: the store of models on this machine, as clients of Ollama's API may change it. What it does is done when
// a call returns, and then the server offers, or no longer offers, what has changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/places/ollama_name.h"
#include "serve/refusal.h"

namespace sluice {

// How far a pull is, in Ollama's words.
struct PullProgress {
  std::string status = {};            // "pulling manifest", "pulling <12 digits>"
  std::string digest = {};            // "sha256:<64 hex>" of the file under way; "": none
  uint64_t total = 0, completed = 0;  // bytes of that file
};
using PullSink = std::function<void(const PullProgress&)>;

// For any thread. Only pulls of one name must not run beside each other.
class ModelStore {
 public:
  virtual ~ModelStore() = default;
  // Fetches a model. Ends early when another thread sets `stop`; what has come is kept for the next call.
  virtual Checked pull(const OllamaName& name, const PullSink& tell, const std::atomic<bool>& stop) = 0;
  virtual Checked copy(const OllamaName& source, const OllamaName& destination) = 0;
  virtual Checked remove(const OllamaName& name) = 0;
};

}  // namespace sluice

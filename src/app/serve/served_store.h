// ServedStore: Ollama's store on this machine, as clients of a server change it. A model that is pulled or copied is
// offered under its name at once, a deleted one no longer.
//
// Models that the command line or the file of --models names are neither deleted nor replaced, and their blobs stay.
// Blobs that no name stands for any more are removed, but not while a pull runs: it may count on them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/open/open.h"
#include "checkpoint/model_files.h"
#include "serve/answer_queue.h"
#include "serve/model_shelf.h"
#include "serve/store/model_store.h"

namespace sluice {

class ServedStore final : public ModelStore {
 public:
  struct Setup {
    std::vector<std::string> roots;  // of stores; pulls go into the first
    Arguments arguments;             // the command's
    std::vector<ModelFiles> named;   // of the models that stay
    std::string version;             // of the program
  };
  // What is given here outlives this, and the queue runs.
  ServedStore(Setup setup, ModelShelf& shelf, AnswerQueue& queue, Machine& machine, Console& console)
      : setup_(std::move(setup)), shelf_(&shelf), queue_(&queue), machine_(&machine), console_(&console) {}

  Checked pull(const OllamaName& name, const PullSink& tell, const std::atomic<bool>& stop) override;
  Checked copy(const OllamaName& source, const OllamaName& destination) override;
  Checked remove(const OllamaName& name) override;

 private:
  std::optional<std::string> root_of(const OllamaName& name) const;
  bool lies_here(const OllamaName& name) const;
  bool is_named(const OllamaName& name) const;
  Refusal named(const OllamaName& name) const;
  Refusal missing(const OllamaName& name) const;
  void note_unused(const std::string& root, std::set<std::string> digests);
  Status remove_unused();
  Checked offer(const std::string& root, const OllamaName& name, const char* done);
  Checked offer_now(const std::string& root, const OllamaName& name, const char* done);

  const Setup setup_;
  ModelShelf* shelf_;
  AnswerQueue* queue_;
  Machine* machine_;
  Console* console_;

  std::mutex mutex_;  // of all changes of files but downloads; guards what follows
  uint32_t pulls_ = 0;
  std::map<std::string, std::set<std::string>> unused_;  // digests that may be unused, by root
};

}  // namespace sluice

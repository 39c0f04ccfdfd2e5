// Sequences saved to files that a user names, and loaded from them (save.h has the format).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "engine/state/page_files.h"

namespace sluice {

// Whose states: what computed them.
struct ComputedBy {
  std::function<std::string()> digest;  // of the model, on any thread; it takes a while where nobody remembers it
  std::string numerics_id;
  uint32_t vocabulary = 0;
  uint32_t context = 0;
};

class SequenceFiles {
 public:
  // All outlive it.
  SequenceFiles(PageFiles& pages, Cache& cache, Runner& runner, Budget& budget, ComputedBy by)
      : pages_(&pages), cache_(&cache), runner_(&runner), budget_(&budget), by_(std::move(by)) {}

  Status save(const CachedHistory& text, const std::string& path);
  // A save() that never waits. begin() asks the device for the pages; once take() has been given all their completions,
  // done() writes the file. One at a time.
  Status begin(uint64_t sequence, const CachedHistory& text);
  std::optional<uint64_t> saving() const { return saving_ ? std::optional(saving_->sequence) : std::nullopt; }
  bool take(const Completion& completion);  // false: it is of something else
  bool has_all() const { return saving_->under_way.empty(); }
  Status end(const std::string& path);

  // A wrong model or a damaged file is an error. With another numerics id, or without room, nothing is computed of the
  // history yet, and `note` says so.
  Result<CachedHistory> load(const std::string& path, std::string& note);

 private:
  // A sequence on its way to a file, whose pages the device brings.
  struct Saving {
    uint64_t sequence = 0;
    SavedSequence saved{};
    std::vector<std::vector<std::byte>> pages{};  // in the file's order
    Reservation reservation{};                    // of them
    std::vector<Ticket> under_way{};
    Status status{};  // the first that failed
  };

  SavedSequence saved_sequence(const CachedHistory& text);
  Status check(const SavedSequence& saved, const std::string& path);

  PageFiles* pages_;
  Cache* cache_;
  Runner* runner_;
  Budget* budget_;
  ComputedBy by_;
  std::optional<Saving> saving_;
};

}  // namespace sluice

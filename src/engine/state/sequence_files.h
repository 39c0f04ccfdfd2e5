// SequenceFiles: saves sequences to files that a user names, and loads them (save.h has the format).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "engine/state/page_files.h"

namespace sluice {

// The model and the device that computed a state.
struct ComputedBy {
  std::function<std::string()> digest;  // of the model; may be called on any thread, and may take seconds at first
  std::string numerics_id;
  uint32_t vocabulary = 0;
  uint32_t context = 0;

  // The digest that stands in files of states that were computed with these adapters (CachedHistory::adapters).
  std::string digest_with(const std::string& adapters) const {
    return adapters.empty() ? digest() : digest() + kAdaptersMark + adapters;
  }
  static constexpr const char* kAdaptersMark = "+";
};

class SequenceFiles {
 public:
  // All outlive it.
  SequenceFiles(PageFiles& pages, Cache& cache, Runner& runner, Budget& budget, ComputedBy by)
      : pages_(&pages), cache_(&cache), runner_(&runner), budget_(&budget), by_(std::move(by)) {}

  Status save(const CachedHistory& text, const std::string& path);
  // save() without waiting. begin() asks the device for the pages, take() takes their completions, and once has_all()
  // is true, end() writes the file. One save at a time.
  Status begin(uint64_t sequence, const CachedHistory& text);
  std::optional<uint64_t> saving() const { return saving_ ? std::optional(saving_->sequence) : std::nullopt; }
  bool take(const Completion& completion);  // false: it belongs to something else
  bool has_all() const { return saving_->under_way.empty(); }
  Status end(const std::string& path);

  // A wrong model or a damaged file is an error. With another numerics id or without free pages, the history comes
  // without its computed part, and `note` says so.
  Result<CachedHistory> load(const std::string& path, std::string& note);

 private:
  // A sequence that is being saved while the device brings its pages.
  struct Saving {
    uint64_t sequence = 0;
    SavedSequence saved{};
    std::vector<std::vector<std::byte>> pages{};  // in the file's order
    Reservation reservation{};                    // of `pages`
    std::vector<Ticket> under_way{};
    Status status{};  // of the first page that failed
  };

  SavedSequence saved_sequence(const CachedHistory& text);
  Status check(const SavedSequence& saved, const std::string& path);
  Result<std::string> adapters_of(const SavedSequence& saved, const std::string& path) const;

  PageFiles* pages_;
  Cache* cache_;
  Runner* runner_;
  Budget* budget_;
  ComputedBy by_;
  std::optional<Saving> saving_;
};

}  // namespace sluice

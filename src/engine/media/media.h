// Media: the pictures and sounds that sequences of an engine show, and the rows that towers make of them.
//
// A picture is named by its content (MediaDigest), so it is computed once however often it is shown. Its rows lie in
// the host's memory and are an input of the text program. They are computed when a step first needs them, one picture
// at a time, while other sequences go on. When memory is short, rows that no sequence shows are forgotten first; then
// rows whose picture is still there to be computed again, to the same bits.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/history.h"
#include "engine/media/tower.h"

namespace sluice {

class Media {
 public:
  struct Settings {
    Arithmetic arithmetic = Arithmetic::fast;
    uint32_t columns = 0;  // of a row: the text's hidden width
    // Whether some sequence shows it.
    std::function<bool(const MediaDigest&)> is_shown;
  };
  Media(std::vector<TowerModel> towers, Device& device, Budget& budget, Settings settings);

  // From now on its rows can be computed.
  Status give(MediaInput input);
  // Whether the rows of all pictures in these elements are there; else they are computed now or after others, and
  // `user` waits. Never given, or a tower that failed: one sentence.
  Result<bool> has(uint64_t user, std::span<const HistoryToken> elements);
  bool waits(uint64_t user) const { return waiting_.contains(user); }
  // Of a picture whose rows are there: one row.
  std::span<const float> row(const MediaRow& media) const;

  // Takes a tower's result and begins the next step; on the processor it computes a piece of it. True when it has done
  // something.
  bool advance();
  bool busy() const { return current_.has_value() || !queue_.empty(); }
  // Gives the memory of towers back. They are placed again when they are needed.
  void drop_towers();

 private:
  struct Entry {
    MediaInput input;
    std::vector<float> rows;  // empty: not computed
    Reservation reserved;     // of inputs and rows
    std::optional<Error> failure;
    uint64_t last_used = 0;
  };

  Status reserve(Entry& entry, uint64_t bytes);
  bool forget_one(const Entry* except);
  bool start_next();
  Status start(Entry& entry);
  Result<Tower*> tower_for(ProgramKind kind, uint32_t rows);
  void finish(Entry& entry, Status status);

  std::vector<TowerModel> models_;
  Device* device_;
  Budget* budget_;
  Settings settings_;
  std::map<MediaDigest, Entry> entries_;
  std::map<ProgramKind, std::unique_ptr<Tower>> towers_;
  std::vector<MediaDigest> queue_;  // to be computed, first in first out
  std::optional<MediaDigest> current_;
  std::set<uint64_t> waiting_;  // users, until something has changed
  uint64_t clock_ = 0;
};

}  // namespace sluice

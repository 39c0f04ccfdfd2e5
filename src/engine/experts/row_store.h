// Rows of tables that stay in their file. Of a table that only `embed` reads, such as Gemma's embeddings of each layer,
// as many rows lie in memory as a step may want, and some more: those that were used last. The program is changed to
// name a row by where it lies there, so that no device knows of it, and no bit changes.
//
// A user (a request) asks for the rows of its next tokens before they join a step. Rows that are not in memory are read
// while other users' steps go on; those that a user has asked for stay until it releases them.
//
// Tables whose numbers are not all in one place (parts), or in no file, stay as they are. Not thread safe.
#pragma once

#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/budget.h"
#include "base/files/read_queue.h"
#include "base/result.h"
#include "engine/experts/expert_places.h"
#include "engine/options.h"
#include "graph/step.h"

namespace sluice {

// Stands before the model's own weights.
class RowStore final : public WeightSource {
 public:
  using OpenReads = std::function<Result<std::unique_ptr<ReadQueue>>(const std::vector<std::string>& paths)>;

  // Takes no memory yet. `program`: is changed. `tokens`: its input by which rows are named. `rows`: of a table in
  // memory, at least those of a step. Null where no table can be leased. `weights` outlive it.
  static Result<std::unique_ptr<RowStore>> plan(Program& program, uint32_t tokens, const WeightSource& weights,
                                                const WeightFiles& files, uint32_t rows);
  uint64_t bytes() const;  // of memory that it takes
  // Takes it, and opens the files; before find() is asked for what a device is to use.
  Status take(const OpenReads& open_reads);

  Result<TensorSource> find(const std::string& name) const override;

  // Holds the rows of these tokens for `user`, in place of those that it held, and begins to read what is not there.
  // False: not all are there yet, or there is no room for them while others hold theirs. An error is that of a read
  // since the last call.
  Result<bool> hold(uint64_t user, std::span<const int32_t> tokens);
  bool waits(uint64_t user) const;  // for rows that are being read
  void release(uint64_t user);
  bool reading() const { return !under_way_.empty(); }
  // Takes what has been read, and begins more. `wait`: some milliseconds, for the first of it.
  void advance(bool wait);
  // Fills the step's inputs that name rows in memory. All rows of its tokens are held.
  void fill(StepBuffer& step);
  RowStats stats() const { return stats_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Table {
    uint32_t input = 0;  // of the program
    std::string name{};
    TensorSource source{};  // in the file
    FilePlace first{};      // of its first row
    uint64_t row_bytes = 0;
    std::unique_ptr<std::byte, Free> memory{};  // row after row
    std::vector<int32_t> held{};                // by row of memory; -1: nothing
    std::vector<uint64_t> last_use{};
    std::vector<uint32_t> holders{};  // users, and a read under way
    std::unordered_map<int32_t, uint32_t> row_of{};
  };
  // A row of memory.
  struct Place {
    size_t table = 0;
    uint32_t row = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Held {
    std::vector<Place> places{};
    size_t missing = 0;  // of them, being read
    std::optional<Error> failure{};
  };
  struct Reading {
    Place to{};
    int32_t row = 0;    // of the table
    uint64_t done = 0;  // bytes, from the block on that the row begins in
  };

  explicit RowStore(const WeightSource& weights) : weights_(&weights) {}
  std::optional<uint32_t> room(const Table& table) const;
  bool hold_rows(uint64_t user, Held& held, size_t table, std::span<const int32_t> tokens);
  bool add_row(size_t table, int32_t token);
  void begin_waiting();
  void land(size_t staging, const Status& status);
  uint64_t first_byte(const Reading& reading) const;
  void begin(size_t staging);
  Result<bool> end(const ReadEnd& ended);

  const WeightSource* weights_;
  std::vector<std::string> paths_;
  uint32_t tokens_ = 0;
  std::vector<Table> tables_;
  uint64_t clock_ = 0;
  std::unordered_map<uint64_t, Held> held_;             // by user
  std::map<Place, std::vector<uint64_t>> under_way_{};  // rows that are read or wait for it, and users that wait
  std::deque<Reading> waiting_;                         // for staging memory
  std::vector<Reading> readings_;                       // by block of staging memory
  std::vector<size_t> free_;                            // blocks
  uint64_t staging_bytes_ = 0;                          // of a block
  RowStats stats_;
  std::unique_ptr<std::byte, Free> staging_;
  std::unique_ptr<ReadQueue> reads_;  // last: goes first, and waits for what is read into staging
};

}  // namespace sluice

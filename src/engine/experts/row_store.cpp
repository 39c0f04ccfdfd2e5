#include "engine/experts/row_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files/file.h"
#include "graph/operands.h"

namespace sluice {
namespace {

constexpr uint32_t kMostReads = 32;  // at once

uint64_t blocks_below(uint64_t offset) { return offset / kReadAlignment * kReadAlignment; }
uint64_t blocks_above(uint64_t offset) { return blocks_below(offset + kReadAlignment - 1); }

// Whether all that reads it is an `embed` by these ids.
bool is_table(const Program& program, WeightId weight, ValueId ids) {
  bool found = false;
  for (const Op& op : program.ops) {
    bool reads = false;
    for_each_weight(op, [&](WeightId id) { reads |= id == weight; });
    if (!reads) continue;
    const auto* const embed = std::get_if<Embed>(&op);
    if (embed == nullptr || embed->ids != ids) return false;
    found = true;
  }
  return found;
}

// The input that names its rows from now on.
uint32_t add_input(Program& program, WeightId weight, ValueId ids) {
  const auto value = static_cast<ValueId>(program.values.size());
  program.values.push_back({.type = program.values[ids].type, .storage = value});
  program.inputs.push_back({.name = cat("rows of ", program.weights[weight].name), .value = value});
  for (Op& op : program.ops)
    if (auto* const embed = std::get_if<Embed>(&op); embed != nullptr && embed->weight == weight) embed->ids = value;
  return static_cast<uint32_t>(program.inputs.size() - 1);
}

}  // namespace

Result<std::unique_ptr<RowStore>> RowStore::plan(Program& program, uint32_t tokens, const WeightSource& weights,
                                                 const WeightFiles& files, uint32_t rows) {
  std::unique_ptr<RowStore> store(new RowStore(weights));
  store->paths_ = files.paths;
  store->tokens_ = tokens;
  const ValueId ids = program.inputs[tokens].value;
  for (WeightId id = 0; id < program.weights.size(); ++id) {
    WeightDecl& weight = program.weights[id];
    if (!is_table(program, id, ids)) continue;
    TRY(TensorSource source, weights.find(weight.name));
    if (!source.parts.empty() || source.shape.experts != 1 || source.shape.rows <= rows || !files.place) continue;
    const auto first = files.place(source.row(0, 0)), last = files.place(source.row(0, source.shape.rows - 1));
    if (!first || !last || first->file != last->file) continue;
    Table table{.name = weight.name, .first = *first, .row_bytes = row_bytes(source.format, source.shape.columns)};
    table.held.assign(rows, -1);
    table.last_use.assign(rows, 0);
    table.source = std::move(source);
    table.input = add_input(program, id, ids);
    weight.shape.rows = rows;
    store->staging_bytes_ = std::max(store->staging_bytes_, blocks_above(table.row_bytes) + kReadAlignment);
    store->tables_.push_back(std::move(table));
  }
  if (store->tables_.empty()) store.reset();
  return store;
}

uint64_t RowStore::bytes() const {
  uint64_t bytes = kMostReads * staging_bytes_;
  for (const Table& table : tables_) bytes += table.held.size() * table.row_bytes;
  return bytes;
}

Status RowStore::take(const OpenReads& open_reads) {
  TRY(reads_, open_reads(paths_));
  readings_.resize(std::min(kMostReads, reads_->depth()));
  const uint64_t staging = readings_.size() * staging_bytes_;
  staging_.reset(static_cast<std::byte*>(std::aligned_alloc(kReadAlignment, static_cast<size_t>(staging))));
  bool taken = staging_ != nullptr;
  for (Table& table : tables_) {
    const uint64_t rows = table.held.size() * table.row_bytes;
    table.memory.reset(static_cast<std::byte*>(std::malloc(static_cast<size_t>(rows))));
    taken = taken && table.memory != nullptr;
  }
  if (taken) return {};
  return error(ErrorKind::out_of_memory, "rows of tables: found no memory for them: want ", bytes(), " bytes");
}

Result<TensorSource> RowStore::find(const std::string& name) const {
  const auto table = std::ranges::find(tables_, name, &Table::name);
  if (table == tables_.end()) return weights_->find(name);
  TensorSource source = table->source;
  source.shape.rows = static_cast<uint32_t>(table->held.size());
  source.bytes = table->memory.get();
  source.row_stride = table->row_bytes;
  return source;
}

Status RowStore::fetch(StepBuffer& step) {
  ++clock_;
  wanted_.clear();
  for (Table& table : tables_) want(table, step.input_i32(tokens_), step.input_i32(table.input));
  return read_wanted();
}

// A row of memory that this step does not use.
uint32_t RowStore::room(Table& table) const {
  const auto oldest = std::ranges::min_element(table.last_use);
  CHECK(*oldest < clock_);
  return static_cast<uint32_t>(oldest - table.last_use.begin());
}

void RowStore::want(Table& table, std::span<const int32_t> tokens, std::span<int32_t> rows) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (const auto held = table.row_of.find(tokens[i]); held != table.row_of.end())
      table.last_use[held->second] = clock_;
  stats_.uses += tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (const auto held = table.row_of.find(tokens[i]); held != table.row_of.end()) {
      rows[i] = static_cast<int32_t>(held->second);
      continue;
    }
    ++stats_.misses;
    const uint32_t to = room(table);
    if (table.held[to] >= 0) table.row_of.erase(table.held[to]);
    table.held[to] = tokens[i];
    table.last_use[to] = clock_;
    table.row_of[tokens[i]] = to;
    rows[i] = static_cast<int32_t>(to);
    wanted_.push_back({.table = &table, .to = to, .row = tokens[i]});
  }
}

uint64_t RowStore::first_byte(const Reading& reading) const {
  return reading.table->first.offset + static_cast<uint64_t>(reading.row) * reading.table->source.row_stride;
}

// What is left of a row, from the block on that was not read whole.
void RowStore::begin(size_t staging) {
  const Reading& reading = readings_[staging];
  const uint64_t first = first_byte(reading), begins = blocks_below(first);
  const uint64_t from = blocks_below(reading.done), ends = blocks_above(first + reading.table->row_bytes);
  reads_->begin(
      {.id = staging,
       .file = reading.table->first.file,
       .offset = begins + from,
       .into = {staging_.get() + staging * staging_bytes_ + from, static_cast<size_t>(ends - begins - from)}});
}

// False: the read goes on.
Result<bool> RowStore::end(const ReadEnd& ended) {
  Reading& reading = readings_[static_cast<size_t>(ended.id)];
  const Table& table = *reading.table;
  const std::string& path = paths_[table.first.file];
  const uint64_t first = first_byte(reading), skipped = first - blocks_below(first);
  const uint64_t needed = skipped + table.row_bytes, before = reading.done;
  const bool again = ended.bytes == -EINTR || ended.bytes == -EAGAIN;
  if (ended.bytes < 0 && !again) return system_error(path, "read", static_cast<int>(-ended.bytes));
  if (!again) {
    stats_.read_bytes += static_cast<uint64_t>(ended.bytes);
    reading.done = blocks_below(before) + static_cast<uint64_t>(ended.bytes);
  }
  if (reading.done >= needed) {
    std::memcpy(table.memory.get() + reading.to * table.row_bytes, staging_.get() + ended.id * staging_bytes_ + skipped,
                static_cast<size_t>(table.row_bytes));
    return true;
  }
  if (!again && reading.done <= before)
    return error(ErrorKind::corrupt, path, ": ends at byte ", blocks_below(first) + reading.done, ": want ",
                 first + table.row_bytes, " bytes");
  begin(static_cast<size_t>(ended.id));
  return false;
}

// After a failure nothing that was wanted counts as read.
Status RowStore::read_wanted() {
  Status status;
  std::vector<size_t> free;
  for (size_t i = readings_.size(); i-- > 0;) free.push_back(i);
  std::vector<ReadEnd> ended;
  for (size_t next = 0; free.size() < readings_.size() || (next < wanted_.size() && status);) {
    while (next < wanted_.size() && !free.empty() && status) {
      readings_[free.back()] = wanted_[next++];
      begin(free.back());
      free.pop_back();
    }
    ended.clear();
    reads_->take_ended(ended, /*wait=*/true);
    for (const ReadEnd& one : ended) {
      const Result<bool> done = end(one);
      if (!done) status = done.error();
      if (!done || *done) free.push_back(static_cast<size_t>(one.id));
    }
  }
  if (status) return status;
  for (const Reading& one : wanted_) {
    one.table->row_of.erase(one.row);
    one.table->held[one.to] = -1;
    one.table->last_use[one.to] = 0;
  }
  return status;
}

}  // namespace sluice

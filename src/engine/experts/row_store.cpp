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
    table.holders.assign(rows, 0);
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
  for (size_t i = readings_.size(); i-- > 0;) free_.push_back(i);
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

Result<bool> RowStore::hold(uint64_t user, std::span<const int32_t> tokens) {
  if (const auto held = held_.find(user); held != held_.end() && held->second.failure) {
    const Error failure = *held->second.failure;
    release(user);
    return failure;
  }
  release(user);
  ++clock_;
  Held& held = held_[user];
  for (size_t table = 0; table < tables_.size(); ++table) {
    if (hold_rows(user, held, table, tokens)) continue;
    release(user);
    return false;
  }
  begin_waiting();
  advance(/*wait=*/false);
  return held.missing == 0 && !held.failure;
}

bool RowStore::hold_rows(uint64_t user, Held& held, size_t table, std::span<const int32_t> tokens) {
  Table& of = tables_[table];
  for (const int32_t token : tokens) {
    if (!of.row_of.contains(token) && !add_row(table, token)) return false;
    const uint32_t row = of.row_of.at(token);
    if (std::exchange(of.last_use[row], clock_) == clock_) continue;  // held by this call
    ++of.holders[row];
    held.places.push_back({table, row});
    const auto reading = under_way_.find({table, row});
    if (reading == under_way_.end()) continue;
    reading->second.push_back(user);
    ++held.missing;
  }
  return true;
}

// Gives a row of memory that nobody holds to the token's; false when there is none.
bool RowStore::add_row(size_t table, int32_t token) {
  Table& of = tables_[table];
  const std::optional<uint32_t> to = room(of);
  if (!to) return false;
  ++stats_.misses;
  if (of.held[*to] >= 0) of.row_of.erase(of.held[*to]);
  of.held[*to] = token;
  of.last_use[*to] = 0;
  of.row_of[token] = *to;
  ++of.holders[*to];
  under_way_[{table, *to}];
  waiting_.push_back({.to = {table, *to}, .row = token});
  return true;
}

std::optional<uint32_t> RowStore::room(const Table& table) const {
  std::optional<uint32_t> oldest;
  for (uint32_t row = 0; row < table.held.size(); ++row)
    if (table.holders[row] == 0 && (!oldest || table.last_use[row] < table.last_use[*oldest])) oldest = row;
  return oldest;
}

bool RowStore::waits(uint64_t user) const {
  const auto held = held_.find(user);
  return held != held_.end() && held->second.missing > 0;
}

void RowStore::release(uint64_t user) {
  const auto held = held_.find(user);
  if (held == held_.end()) return;
  for (const Place& place : held->second.places) {
    --tables_[place.table].holders[place.row];
    if (const auto reading = under_way_.find(place); reading != under_way_.end()) std::erase(reading->second, user);
  }
  held_.erase(held);
}

void RowStore::fill(StepBuffer& step) {
  const std::span<const int32_t> tokens = step.input_i32(tokens_);
  for (const Table& table : tables_) {
    const std::span<int32_t> rows = step.input_i32(table.input);
    for (size_t i = 0; i < tokens.size(); ++i) rows[i] = static_cast<int32_t>(table.row_of.at(tokens[i]));
    stats_.uses += tokens.size();
  }
}

uint64_t RowStore::first_byte(const Reading& reading) const {
  return tables_[reading.to.table].first.offset +
         static_cast<uint64_t>(reading.row) * tables_[reading.to.table].source.row_stride;
}

// What is left of a row, from the block on that was not read whole.
void RowStore::begin(size_t staging) {
  const Reading& reading = readings_[staging];
  const Table& table = tables_[reading.to.table];
  const uint64_t first = first_byte(reading), begins = blocks_below(first);
  const uint64_t from = blocks_below(reading.done), ends = blocks_above(first + table.row_bytes);
  reads_->begin(
      {.id = staging,
       .file = table.first.file,
       .offset = begins + from,
       .into = {staging_.get() + staging * staging_bytes_ + from, static_cast<size_t>(ends - begins - from)}});
}

// False: the read goes on.
Result<bool> RowStore::end(const ReadEnd& ended) {
  Reading& reading = readings_[static_cast<size_t>(ended.id)];
  const Table& table = tables_[reading.to.table];
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
    std::memcpy(table.memory.get() + reading.to.row * table.row_bytes,
                staging_.get() + ended.id * staging_bytes_ + skipped, static_cast<size_t>(table.row_bytes));
    return true;
  }
  if (!again && reading.done <= before)
    return error(ErrorKind::corrupt, path, ": ends at byte ", blocks_below(first) + reading.done, ": want ",
                 first + table.row_bytes, " bytes");
  begin(static_cast<size_t>(ended.id));
  return false;
}

void RowStore::begin_waiting() {
  for (; !waiting_.empty() && !free_.empty(); waiting_.pop_front()) {
    const size_t staging = free_.back();
    free_.pop_back();
    readings_[staging] = waiting_.front();
    begin(staging);
  }
}

void RowStore::advance(bool wait) {
  for (std::vector<ReadEnd> ended; reading(); wait = false, ended.clear()) {
    reads_->take_ended(ended, wait);
    if (ended.empty()) return;
    for (const ReadEnd& one : ended) {
      const Result<bool> done = end(one);
      if (!done || *done) land(static_cast<size_t>(one.id), done ? Status() : Status(done.error()));
    }
    begin_waiting();
  }
}

// A row that could not be read is in no table; those who wait for it hear why.
void RowStore::land(size_t staging, const Status& status) {
  const Reading& reading = readings_[staging];
  Table& table = tables_[reading.to.table];
  --table.holders[reading.to.row];
  if (!status) {
    table.row_of.erase(reading.row);
    table.held[reading.to.row] = -1;
    table.last_use[reading.to.row] = 0;
  }
  const auto waited_for = under_way_.extract(reading.to);
  for (const uint64_t user : waited_for.mapped()) {
    Held& held = held_.at(user);
    --held.missing;
    if (!status && !held.failure) held.failure = status.error();
  }
  free_.push_back(staging);
}

}  // namespace sluice

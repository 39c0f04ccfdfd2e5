// append and attention: which page, which queries together, which thread.
#include <algorithm>

#include "device/cpu/executor.h"

namespace sluice::cpu {

uint32_t Executor::sequence_of(ValueId id, uint64_t row) const {
  return static_cast<uint32_t>(step_->row_sequences()[step_row(id, row)]);
}

void Executor::run(const Append& op) {
  const StateDecl& state = program_.states[op.state.state];
  each_row(op.k, [&](uint64_t row) {
    const auto position = static_cast<uint32_t>(step_->positions()[row]);
    const auto sequence = static_cast<uint32_t>(step_->row_sequences()[row]);
    const uint32_t entry = position / kPagePositions - static_cast<uint32_t>(step_->first_page(state.group, sequence));
    CHECK(entry < step_->pages(state.group, sequence).size());
    const auto page = static_cast<uint32_t>(step_->pages(state.group, sequence)[entry]);
    CHECK(page < memory_.pages(state.group));
    for (uint32_t head = 0; head < state.heads; ++head) {
      cache_.append_key(reals(op.k, row) + uint64_t{head} * state.key_width, memory_.keys(op.state.state, page, head),
                        state.key_width, position % kPagePositions);
      cache_.append_value(reals(op.v, row) + uint64_t{head} * state.value_width,
                          memory_.values(op.state.state, page, head), state.value_width, position % kPagePositions);
    }
  });
}

// Blocks of at most kMaxQueries queries, fewer when there are not enough for every thread.
void Executor::cut_queries(const Attention& op) {
  const uint32_t kv_heads = program_.states[op.state.state].heads;
  const uint32_t group = type(op.q).heads / kv_heads;
  const uint64_t count = rows(op.q);
  const uint64_t share = (count * type(op.q).heads + pool_.threads() - 1) / pool_.threads();
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(share, 1, kMaxQueries));
  const uint64_t most_rows = std::max(1u, most / group);
  const uint32_t most_heads = std::min(most, group);
  query_blocks_.clear();
  for (uint32_t kv_head = 0; kv_head < kv_heads; ++kv_head)
    for (uint64_t row = 0, end = 0; row < count; row = end) {
      for (end = row + 1; end < count && end - row < most_rows && sequence_of(op.q, end) == sequence_of(op.q, row);)
        ++end;
      for (uint32_t head = 0; head < group; head += most_heads)
        query_blocks_.push_back({.row = row,
                                 .rows = end - row,
                                 .head = kv_head * group + head,
                                 .heads = std::min(most_heads, group - head)});
    }
}

void Executor::run(const Attention& op) {
  if (rows(op.q) == 0) return;
  cut_queries(op);
  const StateDecl& state = program_.states[op.state.state];
  const auto last = static_cast<uint64_t>(step_->positions()[step_row(op.q, rows(op.q) - 1)]);
  const uint64_t work = rows(op.q) * type(op.q).heads * (last + 1) * (state.key_width + state.value_width) / 16;
  // Blocks are dealt out in turn, because later rows of a prompt see more.
  const uint32_t threads = pool_.threads();
  share_out(pool_, threads, work / threads, [&](const Share& share) {
    for (uint64_t hand = share.first; hand < share.last; ++hand)
      for (uint64_t block = hand; block < query_blocks_.size(); block += threads)
        attend(op, query_blocks_[block], share.thread);
  });
}

Query Executor::query(const Attention& op, uint64_t row, uint32_t head) {
  const StateDecl& state = program_.states[op.state.state];
  const auto position = static_cast<uint32_t>(step_->positions()[step_row(op.q, row)]);
  return {.q = reals(op.q, row) + uint64_t{head} * state.key_width,
          .out = result(op.out, row) + uint64_t{head} * state.value_width,
          .first = op.window == 0 || position < op.window ? 0 : position - op.window + 1,
          .last = position};
}

void Executor::attend(const Attention& op, const QueryBlock& block, uint32_t thread) {
  const uint32_t index = op.state.state;
  const StateDecl& state = program_.states[index];
  const StateLayout& layout = memory_.state(index);
  Query queries[kMaxQueries];
  uint32_t count = 0;
  for (uint64_t row = block.row; row < block.row + block.rows; ++row)
    for (uint32_t head = block.head; head < block.head + block.heads; ++head) queries[count++] = query(op, row, head);
  const uint32_t sequence = sequence_of(op.q, block.row);
  const uint32_t kv_head = block.head / (type(op.q).heads / state.heads);
  cache_.attend({.queries = queries,
                 .count = count,
                 .pages = step_->pages(state.group, sequence).data(),
                 .first_page = static_cast<uint32_t>(step_->first_page(state.group, sequence)),
                 .keys = memory_.keys(index, 0, kv_head),
                 .values = memory_.values(index, 0, kv_head),
                 .key_page_bytes = layout.key_page_bytes,
                 .value_page_bytes = layout.value_page_bytes,
                 .key_width = state.key_width,
                 .value_width = state.value_width,
                 .scale = op.scale,
                 .softcap = op.softcap,
                 .scratch = memory_.thread(thread)});
}

}  // namespace sluice::cpu

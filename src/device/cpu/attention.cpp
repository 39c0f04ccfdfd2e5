// The ops append, attention and expand on several threads.
//
// Threads split blocks of queries. If a decode step has too few blocks, threads also split the history into parts
// (kernels.h). A single thread sums the same parts in the same order, so the number of threads changes no bit.
//
// Attention over latents is folded: a head's query is multiplied once by the transposed key matrix and then by the
// cached latents in place; the weighted sum of latents is multiplied by the value matrix. A position costs each head
// two latents and the shared key in multiply-adds. The matrices are read once for up to kMaxQueries rows.
#include <algorithm>
#include <functional>
#include <numeric>

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

// The number of parts that the row with the longest visible history sees.
uint32_t Executor::history_parts(const Attention& op) {
  uint32_t most = 1;
  for (uint64_t row = 0; row < rows(op.q); ++row) {
    const Query one = query(op, row, 0);
    most = std::max(most, one.last / kPartPositions - one.first / kPartPositions + 1);
  }
  return most;
}

// The element operations of queries that see as much as the last of these rows. Positions count by whole pages, because
// kernels compute those, and a multiply-add counts as in products.
uint64_t Executor::attention_work(const Attention& op, const RowRange& of) {
  const KeyShape shape = op.keys(program_);
  const Query last = query(op, of.end - 1, 0);
  const uint64_t pages = last.last / kPagePositions - last.first / kPagePositions + 1;
  const uint64_t queries = (of.end - of.first) * type(op.q).heads;
  return queries * pages * kPagePositions * (shape.key_width + shape.value_width) / 4;
}

// Cuts queries into blocks of at most kMaxQueries, or smaller ones so that every thread gets a block, if the work is
// worth several threads: a smaller block takes longer a query. Over latents a block takes several rows before several
// heads, because each head has matrices to read.
void Executor::cut_queries(const Attention& op, uint32_t parts, const RowRange& of) {
  const uint32_t kv_heads = op.keys(program_).heads;
  const uint32_t group = type(op.q).heads / kv_heads;
  const uint64_t count = of.end - of.first;
  const auto are_together = [&](uint64_t a, uint64_t b) {
    return op.has_own_rows() || sequence_of(op.q, a) == sequence_of(op.q, b);
  };
  const uint32_t threads = attention_work(op, of) < kWorthWaking ? 1 : pool_.threads();
  const uint64_t share = (count * type(op.q).heads * parts + threads - 1) / threads;
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(share, 1, kMaxQueries));
  const uint64_t most_rows = op.expand ? most : std::max(1u, most / group);
  query_blocks_.clear();
  for (uint32_t kv_head = 0; kv_head < kv_heads; ++kv_head)
    for (uint64_t row = of.first, end = 0; row < of.end; row = end) {
      for (end = row + 1; end < of.end && end - row < most_rows && are_together(end, row);) ++end;
      const uint32_t most_heads = std::clamp(most / static_cast<uint32_t>(end - row), 1u, group);
      for (uint32_t head = 0; head < group; head += most_heads)
        query_blocks_.push_back({.row = row,
                                 .rows = end - row,
                                 .head = kv_head * group + head,
                                 .heads = std::min(most_heads, group - head)});
    }
}

void Executor::run(const Attention& op) {
  if (rows(op.q) == 0) return;
  if (op.has_own_rows()) return attend_own_rows(op);
  const uint32_t parts = op.expand ? 1 : history_parts(op);
  cut_queries(op, parts, {0, rows(op.q)});
  const uint64_t blocks = query_blocks_.size();
  if (parts > 1 && blocks < uint64_t{pool_.threads()} * kBlocksPerThread && blocks % pool_.threads() != 0)
    return attend_in_parts(op);
  const uint64_t work = attention_work(op, {0, rows(op.q)});
  // Threads take blocks in turn, because later rows of a prompt see more.
  const uint32_t threads = pool_.threads();
  share_out(pool_, threads, work / threads, [this, &op, threads](const Share& share) {
    for (uint64_t hand = share.first; hand < share.last; ++hand)
      for (uint64_t block = hand; block < query_blocks_.size(); block += threads)
        op.expand ? attend_latents(op, query_blocks_[block], share.thread)
                  : attend(op, query_blocks_[block], share.thread);
  });
}

// Computes parts in waves, as many at once as the scratch has room for.
void Executor::attend_in_parts(const Attention& op) {
  const StateDecl& state = program_.states[op.state.state];
  parts_.clear();
  for (uint32_t block = 0; block < query_blocks_.size(); ++block) {
    const QueryBlock& one = query_blocks_[block];
    uint32_t first = ~0u, last = 0;
    for (uint64_t row = one.row; row < one.row + one.rows; ++row) {
      first = std::min(first, query(op, row, one.head).first / kPartPositions);
      last = std::max(last, query(op, row, one.head).last / kPartPositions);
    }
    for (uint32_t part = first; part <= last; ++part) parts_.push_back({.block = block, .part = part});
  }
  const uint64_t cost = uint64_t{kPartPositions} * kMaxQueries * (state.key_width + state.value_width) / 16;
  const uint64_t room = uint64_t{pool_.threads()} * kPartsPerThread;
  for (uint64_t first = 0; first < parts_.size(); first += room) {
    const std::span<const PartOfBlock> wave = std::span(parts_).subspan(first, std::min(room, parts_.size() - first));
    share_out(pool_, wave.size(), cost, [&](const Share& share) {
      for (uint64_t i = share.first; i < share.last; ++i) {
        Query queries[kMaxQueries];
        const QueryBlock& block = query_blocks_[wave[i].block];
        AttendArgs args = attend_args(op, block);
        args.count = fill_queries(op, block, queries);
        args.queries = queries;
        args.scratch = part_sums(i, state.value_width);
        cache_.attend_part(args, wave[i].part);
      }
    });
    share_out(pool_, query_blocks_.size(), cost / kPartPositions * wave.size() / query_blocks_.size(),
              [&](const Share& share) {
                for (uint64_t block = share.first; block < share.last; ++block)
                  merge_parts(op, static_cast<uint32_t>(block), wave);
              });
  }
}

float* Executor::part_sums(uint64_t index, uint32_t value_width) {
  return memory_.part_sums() + (uint64_t{pool_.threads()} * kBlocksPerThread + index) * block_floats(value_width);
}

// Merges the block's parts of a wave, ascending, into its sums over earlier parts.
void Executor::merge_parts(const Attention& op, uint32_t block, std::span<const PartOfBlock> wave) {
  const uint32_t width = program_.states[op.state.state].value_width;
  Query queries[kMaxQueries];
  const uint32_t count = fill_queries(op, query_blocks_[block], queries);
  float* sums = memory_.part_sums() + block * block_floats(width);
  for (uint64_t i = 0; i < wave.size(); ++i) {
    if (wave[i].block != block) continue;
    const float* parts = part_sums(i, width);
    for (uint32_t j = 0; j < count; ++j) {
      const uint32_t first = queries[j].first / kPartPositions, last = queries[j].last / kPartPositions;
      if (wave[i].part < first || wave[i].part > last) continue;
      float* sum = sums + uint64_t{j} * partial_floats(width);
      const float* part = parts + uint64_t{j} * partial_floats(width);
      if (wave[i].part == first)
        std::copy_n(part, partial_floats(width), sum);
      else
        cache_.merge(sum, part, width);
      if (wave[i].part == last) cache_.finish(sum, queries[j].out, width);
    }
  }
}

Query Executor::query(const Attention& op, uint64_t row, uint32_t head) {
  const Seen range = seen(op, *step_, row);
  return {.q = reals(op.q, row) + uint64_t{head} * type(op.q).width,
          .out = result(op.out, row) + uint64_t{head} * type(op.out).width,
          .first = range.first,
          .last = range.last};
}

// The arguments without the queries and the scratch.
AttendArgs Executor::attend_args(const Attention& op, const QueryBlock& block) const {
  const KeyShape shape = op.keys(program_);
  const uint32_t kv_head = block.head / (type(op.q).heads / shape.heads);
  AttendArgs args{
      .key_width = shape.key_width, .value_width = shape.value_width, .scale = op.scale, .softcap = op.softcap};
  if (op.has_own_rows()) {
    const OwnPages pages = own_pages(op, program_, rows(op.k), plan_.attends_in_pairs(op));
    args.pages = own_tiles_.data();
    args.first_page = own_first_tile_;
    args.keys = memory_.own_pages() + pages.keys_at(kv_head, 0);
    args.values = memory_.own_pages() + pages.values_at(kv_head, 0);
    args.key_page_bytes = pages.key_bytes;
    args.value_page_bytes = pages.value_bytes;
    return args;
  }
  const uint32_t index = op.state.state, group = program_.states[index].group;
  const StateLayout& layout = memory_.state(index);
  const uint32_t sequence = sequence_of(op.q, block.row);
  args.pages = step_->pages(group, sequence).data();
  args.first_page = static_cast<uint32_t>(step_->first_page(group, sequence));
  args.keys = memory_.keys(index, 0, kv_head);
  args.values = memory_.values(index, 0, kv_head);
  args.key_page_bytes = layout.key_page_bytes;
  args.value_page_bytes = layout.value_page_bytes;
  return args;
}

uint32_t Executor::fill_queries(const Attention& op, const QueryBlock& block, Query* queries) {
  uint32_t count = 0;
  for (uint64_t row = block.row; row < block.row + block.rows; ++row)
    for (uint32_t head = block.head; head < block.head + block.heads; ++head) queries[count++] = query(op, row, head);
  return count;
}

void Executor::attend(const Attention& op, const QueryBlock& block, uint32_t thread) {
  Query queries[kMaxQueries];
  AttendArgs args = attend_args(op, block);
  args.count = fill_queries(op, block, queries);
  args.queries = queries;
  args.scratch = memory_.thread(thread);
  if (plan_.attends_in_pairs(op)) return plan_.bf16()->attend(args);
  (op.has_own_rows() ? kernels_.cache_f32 : cache_).attend(args);
}

// Lays out keys and values of the step's own rows as pages, then attends. This goes one source after another. A
// source is the rows of a sequence, or a tower's rows that see the same rows. Where keys differ by
// distance, each row is a source.
void Executor::attend_own_rows(const Attention& op) {
  const uint64_t count = rows(op.q);
  for (uint64_t row = 0, end = 0; row < count; row = end) {
    const Seen first = seen(op, *step_, row);
    Seen all = first;
    for (end = row; end < count; ++end) {
      const Seen range = seen(op, *step_, end);
      if (range.own_row != first.own_row || (op.relative != kNone && end > row)) break;
      all.first = std::min(all.first, range.first);
      all.last = std::max(all.last, range.last);
    }
    lay_out_own_rows(op, row, all);
    cut_queries(op, 1, {row, end});
    const uint64_t work = attention_work(op, {row, end});
    share_out(pool_, query_blocks_.size(), work / query_blocks_.size(), [&](const Share& share) {
      for (uint64_t block = share.first; block < share.last; ++block) attend(op, query_blocks_[block], share.thread);
    });
  }
}

// The key of a row as the query at `row` meets it.
const float* Executor::own_key(const Attention& op, uint64_t row, uint64_t key_row, uint32_t head, float* scratch) {
  const uint32_t width = op.keys(program_).key_width;
  const float* const key = reals(op.k, key_row) + uint64_t{head} * width;
  const bool is_moved =
      op.relative != kNone && key_row <= row && row - key_row < program_.weights[op.relative].shape.rows;
  if (!is_moved) return key;
  const float* const added = memory_.factors(op.relative) + (row - key_row) * columns(op.k) + uint64_t{head} * width;
  std::transform(key, key + width, added, scratch, std::plus<>());
  return scratch;
}

// Lays out the tiles from the first visible key to the last.
void Executor::lay_out_own_rows(const Attention& op, uint64_t row, const Seen& range) {
  const KeyShape shape = op.keys(program_);
  const OwnPages pages = own_pages(op, program_, rows(op.k), plan_.attends_in_pairs(op));
  const uint32_t first_tile = range.first / kPagePositions;
  own_tiles_.resize(range.last / kPagePositions - first_tile + 1);
  std::iota(own_tiles_.begin(), own_tiles_.end(), 0);
  CHECK(own_tiles_.size() <= pages.tiles);
  own_first_tile_ = first_tile;
  const CacheKernels& kernels = kernels_.cache_f32;
  const uint64_t work = rows(op.k) * (shape.key_width + shape.value_width) / 4;
  if (plan_.attends_in_pairs(op))
    return share_out(pool_, shape.heads * own_tiles_.size(), work / own_tiles_.size(), [&](const Share& share) {
      for (uint64_t i = share.first; i < share.last; ++i) lay_out_pairs(op, range, i);
    });
  share_out(pool_, shape.heads, work, [&](const Share& share) {
    for (auto head = static_cast<uint32_t>(share.first); head < share.last; ++head)
      for (uint32_t j = range.first; j <= range.last; ++j) {
        const uint64_t tile = j / kPagePositions - first_tile, from = range.row_of(j);
        kernels.append_key(own_key(op, row, from, head, memory_.thread(share.thread)),
                           memory_.own_pages() + pages.keys_at(head, tile), shape.key_width, j % kPagePositions);
        kernels.append_value(reals(op.v, from) + uint64_t{head} * shape.value_width,
                             memory_.own_pages() + pages.values_at(head, tile), shape.value_width, j % kPagePositions);
      }
  });
}

// Tile `index`, where tiles of a head follow each other. Rows without positions see rows from 0 on.
void Executor::lay_out_pairs(const Attention& op, const Seen& range, uint64_t index) {
  const KeyShape shape = op.keys(program_);
  const OwnPages pages = own_pages(op, program_, rows(op.k), true);
  const uint64_t head = index / own_tiles_.size(), tile = index % own_tiles_.size();
  const auto first = static_cast<uint32_t>(tile * kPagePositions);
  const uint64_t row = range.row_of(first);
  plan_.bf16()->lay_out({.keys = reals(op.k, row) + head * shape.key_width,
                         .values = reals(op.v, row) + head * shape.value_width,
                         .key_stride = columns(op.k),
                         .value_stride = columns(op.v),
                         .count = std::min(kPagePositions, range.last - first + 1),
                         .key_width = shape.key_width,
                         .value_width = shape.value_width,
                         .key_tile = memory_.own_pages() + pages.keys_at(head, tile),
                         .value_tile = memory_.own_pages() + pages.values_at(head, tile)});
}

void Executor::attend_latents(const Attention& op, const QueryBlock& block, uint32_t thread) {
  const WeightShape &key = memory_.weight(op.expand.key).shape, &value = memory_.weight(op.expand.value).shape;
  Query queries[kMaxQueries];
  AttendArgs args = attend_args(op, block);
  const uint32_t nope = type(op.q).width - args.key_width, width = cache_width(args.value_width);
  float* scratch = memory_.thread(thread);
  const LatentScratch at = latent_scratch(args.value_width, key, value, adapter_rank(program_, op.expand));
  std::fill_n(scratch + at.folded, uint64_t{kMaxQueries} * width, 0.0f);
  const auto rows = static_cast<uint32_t>(block.rows);
  for (uint32_t head = block.head; head < block.head + block.heads; ++head) {
    float* folded = scratch + at.folded + uint64_t{args.count} * width;
    float* attended = scratch + at.attended + uint64_t{args.count} * width;
    const HeadRows inward{.head = head,
                          .x = query(op, block.row, head).q,
                          .x_stride = columns(op.q),
                          .out = folded,
                          .out_stride = width,
                          .rows = rows};
    multiply_head(op.expand.key, !op.expand.key_transposed, inward, scratch + at.product);
    add_head_adapter(op, op.expand.key_adapter, !op.expand.key_transposed, inward, block.row, at, scratch);
    for (uint32_t row = 0; row < rows; ++row) {
      Query& one = queries[args.count++] = query(op, block.row + row, head);
      one.q += nope;
      one.latent = folded + uint64_t{row} * width;
      one.out = attended + uint64_t{row} * width;
    }
  }
  args.queries = queries;
  args.scratch = scratch + at.results;
  cache_.attend(args);
  for (uint32_t i = 0; i < block.heads; ++i) {
    const HeadRows outward{.head = block.head + i,
                           .x = scratch + at.attended + uint64_t{i} * rows * width,
                           .x_stride = width,
                           .out = query(op, block.row, block.head + i).out,
                           .out_stride = columns(op.out),
                           .rows = rows};
    multiply_head(op.expand.value, false, outward, scratch + at.product);
    add_head_adapter(op, op.expand.value_adapter, false, outward, block.row, at, scratch);
  }
}

void Executor::add_head_adapter(const Attention& op, const AdapterOperand& adapter, bool transposed,
                                const HeadRows& rows, uint64_t first_row, const LatentScratch& at, float* scratch) {
  if (!adapter) return;
  const WeightShape &a = memory_.weight(adapter.a).shape, &b = memory_.weight(adapter.b).shape;
  const uint32_t heads = type(op.q).heads, outputs = transposed ? a.columns : b.rows;
  float *const inner = scratch + at.adapter, *const line = inner + a.rows,
               *const more = line + std::max(a.rows, a.columns);
  for (uint32_t row = 0; row < rows.rows; ++row) {
    const uint64_t of_step = step_row(op.q, first_row + row);
    const int32_t slot = *integers(adapter.slots, of_step);
    const float scale = *reals(adapter.scales, of_step);
    CHECK(slot >= 0 && uint64_t{static_cast<uint32_t>(slot)} * heads <= a.experts);
    if (slot == 0 || scale == 0.0f) continue;
    const uint32_t matrix = static_cast<uint32_t>(slot - 1) * heads + rows.head;
    const float* const x = rows.x + row * rows.x_stride;
    // The factors that the row meets first and then: A and B, or both transposed in the other order.
    HeadRows first{.head = matrix, .x = x, .out = inner, .rows = 1},
        then{.head = matrix, .x = inner, .out = more, .rows = 1};
    multiply_head(transposed ? adapter.b : adapter.a, transposed, first, transposed ? line : scratch + at.product);
    multiply_head(transposed ? adapter.a : adapter.b, transposed, then, transposed ? line : scratch + at.product);
    kernels_.accumulate(more, scale, rows.out + row * rows.out_stride, outputs);
  }
}

void Executor::multiply_head(WeightId weight, bool transposed, const HeadRows& rows, float* scratch) {
  const TensorSource& source = memory_.weight(weight);
  if (!transposed) {
    ProductArgs args = memory_.matrix(weight, rows.head);
    args.x = reinterpret_cast<const std::byte*>(rows.x);
    args.x_stride = rows.x_stride * sizeof(float);
    args.out = rows.out;
    args.out_stride = rows.out_stride;
    args.rows = rows.rows;
    return memory_.product_kernel(weight)(args, 0, source.shape.rows, scratch);
  }
  for (uint32_t row = 0; row < rows.rows; ++row)
    std::fill_n(rows.out + row * rows.out_stride, source.shape.columns, 0.0f);
  for (uint32_t i = 0; i < source.shape.rows; ++i) {
    memory_.decode(weight, rows.head, i, scratch, 1.0f);
    for (uint32_t row = 0; row < rows.rows; ++row)
      kernels_.accumulate(scratch, rows.x[row * rows.x_stride + i], rows.out + row * rows.out_stride,
                          source.shape.columns);
  }
}

void Executor::run(const Expand& op) {
  const uint32_t heads = type(op.key).heads;
  const uint64_t cost = rows(op.latent) * columns(op.latent) * (type(op.key).width + type(op.value).width) / 4;
  share_out(pool_, heads, cost, [&](const Share& share) {
    for (auto head = static_cast<uint32_t>(share.first); head < share.last; ++head) {
      float* key = result(op.key) + uint64_t{head} * type(op.key).width;
      HeadRows matrix{.head = head,
                      .x = reals(op.latent),
                      .x_stride = columns(op.latent),
                      .out = key,
                      .out_stride = columns(op.key),
                      .rows = static_cast<uint32_t>(rows(op.latent))};
      multiply_head(op.weights.key, op.weights.key_transposed, matrix, memory_.thread(share.thread));
      const uint32_t nope = type(op.key).width - type(op.shared).width;
      for (uint64_t row = 0; row < matrix.rows; ++row)
        std::copy_n(reals(op.shared, row), type(op.shared).width, key + row * columns(op.key) + nope);
      matrix.out = result(op.value) + uint64_t{head} * type(op.value).width;
      matrix.out_stride = columns(op.value);
      multiply_head(op.weights.value, false, matrix, memory_.thread(share.thread));
    }
  });
}

}  // namespace sluice::cpu

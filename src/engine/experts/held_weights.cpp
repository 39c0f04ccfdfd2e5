#include "engine/experts/held_weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "format/format.h"
#include "graph/cost.h"

namespace sluice {
namespace {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;  // at once

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// Rows of `row_bytes` that begin every `stride` bytes, for each expert; without experts of their own, all at `first`.
struct Runs {
  StoredAt* first = nullptr;
  std::vector<StoredAt>* experts = nullptr;
  uint64_t* expert_stride = nullptr;
  uint64_t* stride = nullptr;
  uint64_t count = 1;  // of experts
  uint64_t rows = 0, row_bytes = 0;

  bool in_memory() const {
    return first->in_memory() && std::ranges::all_of(*experts, [](const StoredAt& at) { return at.in_memory(); });
  }
  uint64_t bytes() const { return count * rows * row_bytes; }
  StoredAt begin(uint64_t expert) const {
    return experts->empty() ? *first + expert * *expert_stride : (*experts)[static_cast<size_t>(expert)];
  }
};

void copy(StoredAt from, uint64_t bytes, std::byte* to, std::vector<std::byte>& room) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t some = std::min(kReadBytes, bytes - done);
    std::memcpy(to + done, (from + done).read(some, room), static_cast<size_t>(some));
    done += some;
  }
}

// A grid is one run of an expert's.
Runs grid_of(const WeightShape& shape, auto& of) {
  const bool of_experts = of.expert_stride != 0 || !of.experts.empty();
  return {.first = &of.bytes,
          .experts = &of.experts,
          .expert_stride = &of.expert_stride,
          .stride = &of.grid->bytes,
          .count = of_experts ? shape.experts : 1,
          .rows = 1,
          .row_bytes = of.grid->bytes};
}

Runs elements_of(TensorSource& source) {
  if (source.grid) return grid_of(source.shape, source);
  return {.first = &source.bytes,
          .experts = &source.experts,
          .expert_stride = &source.expert_stride,
          .stride = &source.row_stride,
          .count = source.shape.experts,
          .rows = source.shape.rows,
          .row_bytes = row_bytes(source.format, source.shape.columns)};
}

Runs part_of(const WeightShape& shape, WeightPart& part) {
  if (part.grid) return grid_of(shape, part);
  const bool of_experts = part.expert_stride != 0 || !part.experts.empty();
  return {.first = &part.bytes,
          .experts = &part.experts,
          .expert_stride = &part.expert_stride,
          .stride = &part.row_stride,
          .count = of_experts ? shape.experts : 1,
          .rows = (uint64_t{shape.rows} + part.row_shift - 1) / part.block_rows + 1,
          .row_bytes = row_bytes(part.format, (shape.columns - 1) / part.block_columns + 1)};
}

// Into memory of the weight's own, row behind row, expert behind expert. Returns what keeps that.
Result<std::shared_ptr<const void>> hold(const std::string& name, Runs runs) {
  const uint64_t bytes = runs.bytes();
  std::unique_ptr<std::byte, Free> memory;
  if (bytes < SIZE_MAX) memory.reset(static_cast<std::byte*>(std::malloc(static_cast<size_t>(bytes) + 1)));
  if (memory == nullptr)
    return error(ErrorKind::out_of_memory, name, ": found no memory for it: want ", bytes, " bytes");
  std::byte* to = memory.get();
  std::vector<std::byte> room;
  for (uint64_t expert = 0; expert < runs.count; ++expert) {
    const StoredAt from = runs.begin(expert);
    if (*runs.stride == runs.row_bytes) {
      copy(from, runs.rows * runs.row_bytes, to, room);
      to += runs.rows * runs.row_bytes;
      continue;
    }
    for (uint64_t row = 0; row < runs.rows; ++row, to += runs.row_bytes)
      copy(from + row * *runs.stride, runs.row_bytes, to, room);
  }
  *runs.first = memory.get();
  *runs.stride = runs.row_bytes;
  if (*runs.expert_stride != 0 || !runs.experts->empty()) *runs.expert_stride = runs.rows * runs.row_bytes;
  runs.experts->clear();
  return std::shared_ptr<const void>(std::move(memory));
}

// The parts' pieces that come and go are not held.
Status hold_weight(const std::string& name, TensorSource& source, bool comes_and_goes) {
  const std::vector<ExpertPiece> moving = comes_and_goes ? expert_pieces(source) : std::vector<ExpertPiece>{};
  if (const Runs elements = elements_of(source); !comes_and_goes && !elements.in_memory())
    TRY_ASSIGN(source.owner, hold(name, elements));
  for (size_t i = 0; i < source.parts.size(); ++i) {
    const Runs part = part_of(source.shape, source.parts[i]);
    const bool moves = std::ranges::count(moving, static_cast<int>(i), &ExpertPiece::part) > 0;
    if (moves || part.in_memory()) continue;
    TRY(source.parts[i].owner, hold(name, part));
  }
  return {};
}

bool lies_in_memory(TensorSource& source) {
  if (!elements_of(source).in_memory()) return false;
  return std::ranges::all_of(source.parts, [&](WeightPart& part) { return part_of(source.shape, part).in_memory(); });
}

}  // namespace

Result<uint64_t> HeldWeights::table_bytes(const Program& program, const WeightSource& weights) {
  const std::vector<WeightUse> uses = weight_uses(program);
  uint64_t bytes = 0;
  for (WeightId id = 0; id < uses.size(); ++id) {
    if (uses[id] != WeightUse::rows) continue;
    TRY(TensorSource source, weights.find(program.weights[id].name));
    if (!lies_in_memory(source)) bytes += stored_bytes(source);
  }
  return bytes;
}

Result<std::unique_ptr<HeldWeights>> HeldWeights::take(const Program& program, const WeightSource& weights,
                                                       bool streams, Budget& budget) {
  std::unique_ptr<HeldWeights> taken(new HeldWeights(weights));
  const std::vector<WeightUse> uses = weight_uses(program);
  TRY(const uint64_t tables, table_bytes(program, weights));
  TRY(taken->tables_, budget.reserve(Domain::host, Purpose::weights, tables));
  for (WeightId id = 0; id < uses.size(); ++id) {
    const std::string& name = program.weights[id].name;
    TRY(TensorSource source, weights.find(name));
    if (lies_in_memory(source)) continue;
    TRY_STATUS(hold_weight(name, source, streams && uses[id] == WeightUse::experts));
    taken->held_.emplace(name, std::move(source));
  }
  if (taken->held_.empty()) taken.reset();
  return taken;
}

Result<TensorSource> HeldWeights::find(const std::string& name) const {
  const auto found = held_.find(name);
  if (found == held_.end()) return weights_->find(name);
  return found->second;
}

}  // namespace sluice

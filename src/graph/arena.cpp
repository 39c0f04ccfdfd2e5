#include "graph/arena.h"

#include <algorithm>

#include "graph/operands.h"

namespace sluice {
namespace {

// The moment of each op. Overlapping blocks and ranges are one moment.
std::vector<uint32_t> moments(const Program& program, std::span<const OpRange> together) {
  std::vector<OpRange> ranges(together.begin(), together.end());
  for (const Block& block : program.blocks) ranges.push_back({.first_op = block.first_op, .end_op = block.end_op});
  std::sort(ranges.begin(), ranges.end(), [](const OpRange& a, const OpRange& b) { return a.first_op < b.first_op; });
  std::vector<uint32_t> moment(program.ops.size());
  for (uint32_t op = 0; op < moment.size(); ++op) moment[op] = op;
  OpRange joined;
  for (const OpRange& range : ranges) {
    if (range.first_op >= joined.end_op) joined = range;
    joined.end_op = std::max(joined.end_op, range.end_op);
    for (uint32_t op = range.first_op; op < range.end_op; ++op) moment[op] = joined.first_op;
  }
  return moment;
}

struct Placed {
  Lifetime life;
  uint64_t offset = 0;
  uint64_t end = 0;
};

bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// The smallest gap of at least `bytes` between values alive at the same time, or the place behind them all.
uint64_t best_fit(const std::vector<Placed>& placed, const Lifetime& life, uint64_t bytes) {
  std::vector<const Placed*> neighbours;
  for (const Placed& other : placed)
    if (overlap(other.life, life)) neighbours.push_back(&other);
  std::sort(neighbours.begin(), neighbours.end(),
            [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  uint64_t end = 0, best = Arena::kNowhere, best_gap = Arena::kNowhere;
  for (const Placed* other : neighbours) {
    const uint64_t gap = other->offset > end ? other->offset - end : 0;
    if (gap >= bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, other->end);
  }
  return best == Arena::kNowhere ? end : best;
}

}  // namespace

std::vector<Lifetime> lifetimes(const Program& program, bool traced, std::span<const OpRange> together) {
  const std::vector<uint32_t> moment = moments(program, together);
  std::vector<Lifetime> lives;
  std::vector<uint32_t> life_of(program.values.size(), kNone);
  const auto extend = [&](ValueId id, uint32_t last) {
    const uint32_t life = life_of[program.values[id].storage];
    if (life != kNone) lives[life].last = std::max(lives[life].last, last);
  };
  for (uint32_t op = 0; op < program.ops.size(); ++op) {
    for_each_input(program.ops[op], [&](ValueId id) { extend(id, moment[op]); });
    for_each_output(program.ops[op], [&](ValueId id) {
      life_of[id] = static_cast<uint32_t>(lives.size());
      lives.push_back({.value = id, .first = moment[op], .last = moment[op]});
    });
  }
  for (const NamedValue& output : program.outputs) extend(output.value, kNone);
  if (traced)
    for (const NamedValue& named : program.names) extend(named.value, kNone);
  return lives;
}

uint64_t value_bytes(const Program& program, const StepMaxima& maxima, ValueId id) {
  const ValueType& type = program.values[id].type;
  return maxima.counts.rows_of(type.extent) * type.columns() * 4;
}

Arena pack_arena(const Program& program, const StepMaxima& maxima, bool traced, std::span<const OpRange> together) {
  std::vector<Lifetime> lives = lifetimes(program, traced, together);
  const auto bytes = [&](const Lifetime& life) { return value_bytes(program, maxima, life.value); };
  std::sort(lives.begin(), lives.end(), [&](const Lifetime& a, const Lifetime& b) {
    return bytes(a) != bytes(b) ? bytes(a) > bytes(b) : a.value < b.value;
  });
  Arena arena{.offsets = std::vector<uint64_t>(program.values.size(), Arena::kNowhere)};
  std::vector<Placed> placed;
  for (const Lifetime& life : lives) {
    const uint64_t size = (bytes(life) + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    const uint64_t offset = best_fit(placed, life, size);
    placed.push_back({.life = life, .offset = offset, .end = offset + size});
    arena.offsets[life.value] = offset;
    arena.bytes = std::max(arena.bytes, offset + size);
  }
  for (ValueId id = 0; id < program.values.size(); ++id) arena.offsets[id] = arena.offsets[program.values[id].storage];
  return arena;
}

}  // namespace sluice

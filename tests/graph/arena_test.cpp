#include "graph/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "graph/operands.h"
#include "graph/recorder.h"

namespace sluice {
namespace {

const StepMaxima kMaxima{.counts = text_counts(7, 3), .sequences = 2};

class Draw {
 public:
  explicit Draw(uint32_t seed) : seed_(seed) {}
  uint32_t below(size_t end) { return philox4x32({count_++, 0, 0, 0}, {seed_, 0})[0] % static_cast<uint32_t>(end); }

 private:
  uint32_t seed_;
  uint32_t count_ = 0;
};

// A random program of elementwise ops, slices, views, gathers and blocks over earlier values.
Program random_program(uint32_t seed) {
  Draw draw(seed);
  Recorder r;
  const Value wanted = r.input("wanted", {.extent = {.symbol = Symbol::wanted}, .width = 1, .element = Element::i32});
  std::vector<Value> known = {r.input("x", {.heads = 4, .width = 8}), r.input("y", {.heads = 4, .width = 8})};
  for (uint32_t op = 0; op < 40; ++op) {
    const Value x = known[draw.below(known.size())];
    const ValueType type = x.type();
    const bool rows = type.extent.symbol == Symbol::rows;
    switch (draw.below(6)) {
      case 0: known.push_back(scale(x, 2.0f)); break;
      case 1: known.push_back(add(x, x)); break;
      case 2: known.push_back(slice(x, 0, type.heads > 1 ? type.heads / 2 : 1)); break;
      case 3: known.push_back(flatten(x)); break;
      case 4: known.push_back(rows ? gather(x, wanted) : scale(x, 3.0f)); break;
      default: {
        const auto columns = static_cast<uint32_t>(type.columns());
        const Weight up = r.weight(cat("up", columns), {.rows = 24, .columns = columns});
        known.push_back(gated_mlp(x, up, up, r.weight("down", {.rows = 16, .columns = 24}), ActivationKind::silu));
      }
    }
    if (draw.below(10) == 0) r.name(known.back(), cat("name.", op));
  }
  r.output(known.back(), "out");
  r.output(known[draw.below(known.size())], "other");
  return *r.finish();
}

// Plays the program symbolically: every byte of the arena remembers which value wrote it last, and every operand must
// still be there, whole, when it is read. Independent of how lifetimes are computed.
class Playback {
 public:
  Playback(const Program& program, const Arena& arena)
      : program_(program), arena_(arena), owner_(arena.bytes / 4, kNone) {}

  void play() {
    for (uint32_t op = 0; op < program_.ops.size(); ++op) {
      for_each_input(program_.ops[op], [&](ValueId id) { expect_whole(id, op); });
      for_each_output(program_.ops[op], [&](ValueId id) { write(id, op); });
    }
  }
  void expect_whole(ValueId id, uint32_t op) const {
    if (arena_.offsets[id] == Arena::kNowhere) return;
    const auto words = range(id);
    EXPECT_TRUE(
        std::all_of(words.first, words.second, [&](ValueId owner) { return owner == program_.values[id].storage; }))
        << "value " << id << " is overwritten before op " << op;
  }

 private:
  using Words = std::vector<ValueId>;
  std::pair<Words::const_iterator, Words::const_iterator> range(ValueId id) const {
    const auto first = owner_.begin() + static_cast<ptrdiff_t>(arena_.offsets[id] / 4);
    return {first, first + static_cast<ptrdiff_t>(value_bytes(program_, kMaxima, id) / 4)};
  }
  void write(ValueId id, uint32_t op) {
    EXPECT_EQ(arena_.offsets[id] % Arena::kAlignment, 0u);
    ASSERT_LE(arena_.offsets[id] + value_bytes(program_, kMaxima, id), arena_.bytes);
    const auto [first, last] = range(id);
    for_each_input(program_.ops[op], [&](ValueId input) {
      const bool shares =
          arena_.offsets[input] != Arena::kNowhere && range(input).first < last && first < range(input).second;
      EXPECT_FALSE(shares) << "op " << op << " writes over its operand";
    });
    std::fill(owner_.begin() + (first - owner_.cbegin()), owner_.begin() + (last - owner_.cbegin()), id);
  }

  const Program& program_;
  const Arena& arena_;
  Words owner_;
};

TEST(Arena, NoLiveValueIsEverOverwritten) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed);
    for (const bool traced : {false, true}) {
      const Arena arena = pack_arena(program, kMaxima, traced);
      Playback playback(program, arena);
      playback.play();
      for (const NamedValue& output : program.outputs) playback.expect_whole(output.value, kNone);
      for (const NamedValue& named : program.names)
        if (traced) playback.expect_whole(named.value, kNone);
    }
  }
}

TEST(Arena, ValuesOfABlockNeverShareMemory) {
  Recorder r;
  const Value x = scale(r.input("x", {.width = 16}), 1.0f);
  const Weight up = r.weight("up", {.rows = 16, .columns = 16});
  r.output(gated_mlp(x, up, up, up, ActivationKind::silu), "out");
  const Program program = *r.finish();
  const Arena arena = pack_arena(program, kMaxima, false);
  EXPECT_EQ(std::set<uint64_t>(arena.offsets.begin() + 1, arena.offsets.end()).size(), 5u);
}

TEST(Arena, ALongChainNeedsTwoPlaces) {
  Recorder r;
  Value x = r.input("x", {.width = 16});
  for (int i = 0; i < 20; ++i) x = scale(x, 2.0f);
  r.output(x, "out");
  EXPECT_EQ(pack_arena(*r.finish(), kMaxima, false).bytes, 2u * 7 * 16 * 4);
}

TEST(Arena, ATracedPlanKeepsNamedValues) {
  Recorder r;
  Value x = r.input("x", {.width = 16});
  for (int i = 0; i < 20; ++i) {
    x = scale(x, 2.0f);
    r.name(x, cat("x.", i));
  }
  EXPECT_EQ(pack_arena(*r.finish(), kMaxima, true).bytes, 20u * 7 * 16 * 4);
}

TEST(Arena, InputsHaveNoPlaceAndViewsHaveTheirStorages) {
  Recorder r;
  const Value x = r.input("x", {.width = 16});
  const Value y = scale(x, 2.0f);
  const Value view = heads(y, 4);
  const Value input_view = heads(x, 4);
  r.output(flatten(view), "out");
  const Program program = *r.finish();
  const Arena arena = pack_arena(program, kMaxima, false);
  EXPECT_EQ(arena.offsets[x.id], Arena::kNowhere);
  EXPECT_EQ(arena.offsets[input_view.id], Arena::kNowhere);
  EXPECT_EQ(arena.offsets[view.id], arena.offsets[y.id]);
}

TEST(Arena, AnEmptyProgramNeedsNothing) { EXPECT_EQ(pack_arena(Program{}, kMaxima, false).bytes, 0u); }

}  // namespace
}  // namespace sluice

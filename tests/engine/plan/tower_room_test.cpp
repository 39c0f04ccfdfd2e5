// The memory of towers, foreseen and taken.
#include "engine/plan/tower_room.h"

#include <cstdlib>

#include "engine/plan/memory_plan.h"
#include "tests/engine/real_engine.h"
#include "tests/engine/shown_picture.h"

namespace sluice {
namespace {

constexpr uint32_t kRows = 36;  // of a square picture

class TowerMemory : public testing::TestWithParam<const char*> {
 protected:
  std::vector<MemoryLine> room(Device& device) const {
    return media_memory(unwrap(tower_rooms(model, device, Arithmetic::exact, {.max_rows = kRows})));
  }
  EngineOptions options(const std::vector<MemoryLine>& media) const {
    EngineOptions options;
    options.arithmetic = Arithmetic::exact;
    options.context = 256;
    options.prompt_chunk = 64;
    options.media = media;
    return options;
  }
  // How a request about a picture ends within that much memory; nothing where the model does not fit. With room for
  // media it is opened as planned.
  std::optional<Progress> answer(uint64_t limit, EngineOptions wanted) const {
    RealDevice machine("cpu", 1);
    Budget budget;
    budget.set_limit(Domain::host, limit);
    budget.count_mapped(Domain::host, true);
    if (!wanted.media.empty()) {
      const MemoryPlan plan = unwrap(plan_memory(model, weight_files(model), *machine.device, budget, limit, wanted));
      if (!check_floor(plan)) return std::nullopt;
      wanted.prompt_chunk = plan.prompt_chunk;
      wanted.repack = plan.repack;
    }
    Result<std::unique_ptr<Engine>> engine = Engine::create(model, *machine.device, budget, wanted);
    if (!engine) return std::nullopt;
    const Status given = (*engine)->give_media(shown.input);
    if (!given) {
      Progress refused;
      refused.finish = Finish::failed;
      refused.failure = given.error();
      return refused;
    }
    const RequestId request = unwrap((*engine)->submit(request_about(shown, 2)));
    run_until_idle(**engine, Waiting::yes);
    return unwrap((*engine)->collect(request));
  }

  const Model& model = real_model(GetParam());
  const ShownPicture shown = grey_picture(model, 3, kRows);
};

uint64_t peaks(const Budget& budget) {
  uint64_t sum = 0;
  for (const BudgetLine& line : budget.lines()) sum += line.peak;
  return sum;
}

uint64_t sum_of(const std::vector<MemoryLine>& lines) {
  uint64_t sum = 0;
  for (const MemoryLine& line : lines) sum += line.bytes;
  return sum;
}

TEST_P(TowerMemory, IsForeseenWithinFivePercent) {
  ASSERT_EQ(shown.span.rows, kRows);
  RealDevice machine("cpu", 1);
  Budget budget;
  const std::vector<MemoryLine> foreseen = room(*machine.device);
  const auto engine = unwrap(Engine::create(model, *machine.device, budget, options(foreseen)));
  const auto play = [&](Request request) {
    const RequestId id = unwrap(engine->submit(std::move(request)));
    run_until_idle(*engine, Waiting::yes);
    EXPECT_EQ(unwrap(engine->collect(id)).finish, Finish::length);
  };
  play(words_request(kRows + 6, 2));
  const uint64_t before = peaks(budget);
  unwrap(engine->give_media(shown.input));
  play(request_about(shown, 2));
  const auto taken = static_cast<double>(peaks(budget) - before);
  EXPECT_NEAR(taken / static_cast<double>(sum_of(foreseen)), 1.0, 0.05);
}

// Without the room an open context takes all memory.
TEST_P(TowerMemory, IsLeftByTheText) {
  const std::vector<MemoryLine> foreseen = room(*RealDevice("cpu", 1).device);
  const auto open = [&](const std::vector<MemoryLine>& media) {
    EngineOptions wanted = options(media);
    wanted.context = 0;
    return wanted;
  };
  uint64_t least = 0;
  for (uint64_t limit = 1 << 20; least == 0; limit += limit / 8)
    if (answer(limit, open({}))) least = limit;
  bool refused = false;
  uint32_t answered = 0;
  for (uint64_t limit = least; answered < 8; limit += sum_of(foreseen) / 4) {
    const std::optional<Progress> with = answer(limit, open(foreseen)), without = answer(limit, open({}));
    refused |= without && without->finish == Finish::failed;
    if (!with) continue;
    ++answered;
    EXPECT_EQ(with->finish, Finish::length) << limit << ": " << (with->failure ? with->failure->text : "");
  }
  EXPECT_TRUE(refused);
}

INSTANTIATE_TEST_SUITE_P(Families, TowerMemory, testing::Values("gemma4_dense", "qwen3_5_moe"), real_model_name);

TEST(TowerRoom, OfSeveralIsTheLargestTowerAndWhatAllGive) {
  const MemoryLine weights{Domain::host, Purpose::weights, 100}, small{Domain::host, Purpose::weights, 30},
      activations{Domain::host, Purpose::activations, 50};
  const std::vector<TowerRoom> rooms = {{ProgramKind::vision, 10, {weights}, 7},
                                        {ProgramKind::audio, 20, {small, activations}, 3}};
  const auto of = [&](const MediaCounts& counts) {
    std::string text;
    for (const MemoryLine& line : media_memory(rooms, counts))
      text += cat(purpose_name(line.purpose), " ", line.bytes, "; ");
    return text;
  };
  EXPECT_EQ(of({}), "weights 100; staging 10; ");
  EXPECT_EQ(of({.pictures = 2, .sounds = 0}), "weights 100; staging 14; ");
  EXPECT_EQ(of({.pictures = 0, .sounds = 1}), "weights 30; activations 50; staging 3; ");
  EXPECT_EQ(of({.pictures = 0, .sounds = 0}), "");
  EXPECT_EQ(rooms[1].bytes(Domain::host), 83u);
  EXPECT_EQ(rooms[1].bytes(Domain::device()), 0u);
}

}  // namespace
}  // namespace sluice

// States that another thread reads from disk. Other requests do not wait for them.
#include "engine/state/kept_states.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

class KeptStatesTest : public testing::Test {
 protected:
  KeptStatesTest() : folder(cat(testing::TempDir(), ::getpid(), "_kept_states_test")) {
    std::filesystem::remove_all(folder);
    store = std::make_unique<StateStore>(folder, uint64_t{1} << 30);
    FakeEngine first(options());
    Request kept = known;
    kept.keep_sequence = true;
    first.engine->keep_state(first.answer(kept).sequence);
  }
  ~KeptStatesTest() override {
    open_gate();
    std::filesystem::remove_all(folder);
  }

  EngineOptions options() const {
    EngineOptions options;
    options.prompt_chunk = 128;
    options.sequences = 2;
    options.states = store.get();
    return options;
  }
  // Whose states are not found until the gate is open.
  TextModel slow_model() {
    TextModel model = fake::model();
    model.digest = [this] {
      opened.wait();
      return std::string("fake model");
    };
    return model;
  }
  void open_gate() {
    if (!std::exchange(open, true)) gate.set_value();
  }
  static void run_to_end(FakeEngine& fake, RequestId id, Progress& all) {
    for (int steps = 0; steps < 10'000 && all.finish == Finish::running; ++steps) {
      fake.engine->step();
      const Progress more = fake.collect(id);
      all.finish = more.finish;
      all.tokens.insert(all.tokens.end(), more.tokens.begin(), more.tokens.end());
    }
  }
  static std::vector<int32_t> want(const Request& request) {
    History history;
    return oracle_answer(history, request);
  }

  const std::string folder;
  const Request known = greedy(prompt_of(400, 1), 20);
  std::unique_ptr<StateStore> store;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  bool open = false;
};

TEST_F(KeptStatesTest, ReadingAStateDelaysNoOtherRequest) {
  for (const uint32_t polls : {0u, 3u}) {
    fake::Script script;
    script.polls_until_done = polls;
    FakeEngine fake(options(), script, slow_model());
    const Request other = greedy(prompt_of(60, 2), 30);
    const RequestId waits = fake.submit(known), goes_on = fake.submit(other);
    Progress others;
    if (!open) {
      run_to_end(fake, goes_on, others);
      EXPECT_EQ(tokens_of(others), want(other));
      EXPECT_EQ(fake.collect(waits).finish, Finish::running);
      EXPECT_EQ(fake.engine->step(), StepState::in_flight);
    }
    open_gate();
    fake.run();
    const Progress found = fake.collect(waits);
    EXPECT_EQ(found.restored_tokens, 384u);
    EXPECT_EQ(tokens_of(found), want(known));
  }
}

TEST_F(KeptStatesTest, ACancelledRequestWaitsForNoState) {
  FakeEngine fake(options(), {}, slow_model());
  const RequestId cancelled = fake.submit(known);
  EXPECT_EQ(fake.engine->step(), StepState::in_flight);
  fake.engine->cancel(cancelled);
  EXPECT_EQ(fake.collect(cancelled).finish, Finish::cancelled);
  const RequestId again = fake.submit(known), third = fake.submit(known);
  fake.engine->step();
  fake.engine->cancel(third);
  open_gate();
  fake.run();
  EXPECT_EQ(tokens_of(fake.collect(again)), want(known));
  EXPECT_EQ(fake.held_pages(), 0u);
}

// The second of two finds what was read for the first.
TEST_F(KeptStatesTest, AStateIsReadOnceForTwo) {
  FakeEngine fake(options());
  const RequestId first = fake.submit(known), second = fake.submit(known);
  fake.run();
  const Progress a = fake.collect(first), b = fake.collect(second);
  EXPECT_EQ(a.restored_tokens, 384u);
  EXPECT_EQ(b.restored_tokens, 0u);
  EXPECT_EQ(b.reused_tokens, 384u);
  EXPECT_EQ(tokens_of(a), want(known));
  EXPECT_EQ(tokens_of(b), want(known));
}

// What was read before the device failed is not trusted.
TEST_F(KeptStatesTest, OtherRequestsSurviveAFailedDevice) {
  fake::Script script;
  script.polls_until_done = 5;
  script.fail_step = 1;
  FakeEngine fake(options(), script);
  const Request other = greedy(prompt_of(20, 2), 30);
  const RequestId fails = fake.submit(other), goes_on = fake.submit(known);
  fake.run();
  EXPECT_EQ(fake.collect(fails).finish, Finish::failed);
  const Progress found = fake.collect(goes_on);
  ASSERT_EQ(found.finish, Finish::length);
  EXPECT_EQ(tokens_of(found), want(known));
}

}  // namespace
}  // namespace sluice

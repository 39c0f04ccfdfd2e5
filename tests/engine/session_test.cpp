#include "engine/session.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

std::vector<int32_t> tokens_of(const Answer& answer) {
  std::vector<int32_t> tokens;
  for (const SampleResult& result : answer.tokens) tokens.push_back(result.token);
  return tokens;
}

TEST(Session, IsOneConversation) {
  fake::Script slow;
  slow.polls_until_done = 1;
  FakeEngine fake({}, slow);
  Session session(*fake.engine);
  EXPECT_TRUE(session.history()->empty());
  History history;
  for (int32_t turn = 0; turn < 3; ++turn) {
    Request request = greedy(prompt_of(40, turn), 6);
    request.logits_at = {39};
    const std::vector<int32_t> want = oracle_answer(history, request);
    const Result<Answer> answer = session.run(request);
    ASSERT_TRUE(answer);
    EXPECT_EQ(tokens_of(*answer), want);
    EXPECT_EQ(answer->finish, Finish::length);
    EXPECT_EQ(answer->logits.size(), fake::kVocabulary);
    EXPECT_EQ(answer->prompt_tokens, history.size() - 6);
    EXPECT_EQ(answer->reused_tokens, turn == 0 ? 0u : history.size() - 47);
    EXPECT_GT(answer->prompt_seconds, 0);
    EXPECT_EQ(*session.history(), history);
  }
}

TEST(Session, SteppingByTheCallerGivesTheSameAnswer) {
  fake::Script slow;
  slow.polls_until_done = 2;
  FakeEngine fake({}, slow);
  Session session(*fake.engine);
  const Request request = greedy(prompt_of(40, 1), 6);
  History history;
  const std::vector<int32_t> want = oracle_answer(history, request);
  ASSERT_TRUE(session.begin(request));
  EXPECT_EQ(session.begin(request).error().text, "conversation: an answer is being made: want it to end first");
  std::vector<int32_t> seen;
  for (int steps = 0; session.running() && steps < 1000; ++steps) {
    fake.engine->step();
    const Result<Progress> news = session.collect();
    ASSERT_TRUE(news);
    for (const SampleResult& token : news->tokens) seen.push_back(token.token);
  }
  EXPECT_EQ(seen, want);
  EXPECT_EQ(tokens_of(session.answer()), want);
  EXPECT_EQ(*session.history(), history);
}

TEST(Session, ClearingARunningSessionFreesItsPages) {
  fake::Script slow;
  slow.polls_until_done = 2;
  FakeEngine fake({}, slow);
  {
    Session session(*fake.engine);
    ASSERT_TRUE(session.begin(greedy(prompt_of(200, 1), 50)));
    fake.engine->step();
    EXPECT_EQ(fake.engine->step(), StepState::in_flight);
  }
  EXPECT_EQ(fake.held_pages(), 0u);
}

TEST(Session, TheSinkSeesEachTokenAndMayStop) {
  FakeEngine fake;
  Session session(*fake.engine);
  const Request request = greedy(prompt_of(40, 1), 20);
  History history;
  const std::vector<int32_t> want = oracle_answer(history, request);
  std::vector<int32_t> seen;
  const Result<Answer> answer = session.run(request, [&](const SampleResult& result) {
    seen.push_back(result.token);
    return seen.size() < 4;
  });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->finish, Finish::cancelled);
  EXPECT_EQ(seen, std::vector<int32_t>(want.begin(), want.begin() + 4));
  EXPECT_EQ(tokens_of(*answer), seen);
  EXPECT_EQ(session.history()->size(), 44u);
}

TEST(Session, ALongPromptIsWatchedAndMayBeStopped) {
  EngineOptions options;
  options.prompt_chunk = 64;
  FakeEngine fake(options);
  Session session(*fake.engine);
  std::vector<uint32_t> computed;
  const Result<Answer> answer = session.run(greedy(prompt_of(300, 1), 5), {}, [&](const Progress& progress) {
    computed.push_back(progress.computed_prompt_tokens);
    return progress.computed_prompt_tokens < 192;
  });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->finish, Finish::cancelled);
  EXPECT_TRUE(answer->tokens.empty());
  EXPECT_EQ(computed, (std::vector<uint32_t>{64, 128, 192, 192}));
}

TEST(Session, AFailedAnswerLeavesTheHistoryAsItWas) {
  FakeEngine fake;
  Session session(*fake.engine);
  ASSERT_TRUE(session.run(greedy(prompt_of(40, 1), 5)));
  const History before = *session.history();
  const Result<Answer> failed = session.run(greedy({1, fake::kPoison, 2}, 5));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().text, "token 46: layer 3, rms_norm: result is not finite");
  EXPECT_EQ(*session.history(), before);
  EXPECT_EQ(session.run(greedy({1000}, 5)).error().text, "prompt: token 0 is 1000: want 0 to 49");
  History history = before;
  const Request more = greedy(prompt_of(9, 2), 5);
  const std::vector<int32_t> want = oracle_answer(history, more);
  EXPECT_EQ(tokens_of(*session.run(more)), want);
}

TEST(Session, SavesLoadsTruncatesAndClears) {
  const std::string path = testing::TempDir() + "session_test.state";
  std::string note;
  FakeEngine fake;
  History history;
  {
    Session session(*fake.engine);
    EXPECT_EQ(session.save(path).error().text, "conversation: has no tokens: nothing to save");
    EXPECT_EQ(session.truncate(1).error().text, "conversation: has no tokens: cannot keep 1");
    EXPECT_TRUE(session.truncate(0));
    const Request request = greedy(prompt_of(100, 1), 5);
    oracle_answer(history, request);
    ASSERT_TRUE(session.run(request));
    ASSERT_TRUE(session.save(path));
    session.clear();
    EXPECT_TRUE(session.history()->empty());
    ASSERT_TRUE(session.run(greedy(prompt_of(10, 2), 5)));
    ASSERT_TRUE(session.load(path, &note));
    EXPECT_EQ(*session.history(), history);
    ASSERT_TRUE(session.truncate(50));
    EXPECT_EQ(session.history()->size(), 50u);
    EXPECT_FALSE(session.load(path + ".missing", &note));
    EXPECT_EQ(session.history()->size(), 50u) << "a failed load changes nothing";
  }
  std::remove(path.c_str());
  EXPECT_EQ(fake.held_pages(), 0u) << "the session closed its sequences";
}

}  // namespace
}  // namespace sluice

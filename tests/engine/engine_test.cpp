// The engine over a fake device whose answers show every broken rule (fake_device.h).
#include "engine/engine.h"

#include <gmock/gmock.h>

#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;

EngineOptions options(uint32_t sequences, uint32_t chunk = 128) {
  EngineOptions options;
  options.sequences = sequences;
  options.prompt_chunk = chunk;
  return options;
}

TEST(Engine, AnswersAsTheOracleDoes) {
  FakeEngine fake(options(1));
  const Request request = greedy(prompt_of(300, 1), 20);
  History history;
  const std::vector<int32_t> want = oracle_answer(history, request);
  const Progress progress = fake.answer(request);
  EXPECT_EQ(tokens_of(progress), want);
  EXPECT_EQ(progress.finish, Finish::length);
  EXPECT_EQ(progress.prompt_tokens, 300u);
  EXPECT_EQ(progress.reused_tokens, 0u);
  EXPECT_EQ(progress.computed_prompt_tokens, 300u);
  EXPECT_EQ(fake.engine->stats().prompt_rows, 300u);
  EXPECT_EQ(fake.engine->stats().decode_rows, 19u);
}

TEST(Engine, NeverWaitsForTheDevice) {
  fake::Script slow;
  slow.polls_until_done = 2;
  FakeEngine fake(options(1), slow);
  const RequestId id = fake.submit(greedy(prompt_of(10, 1), 1));
  EXPECT_EQ(fake.engine->step(), StepState::in_flight);
  EXPECT_EQ(fake.engine->step(), StepState::in_flight);
  EXPECT_EQ(fake.engine->step(), StepState::progressed);
  EXPECT_EQ(fake.engine->step(), StepState::idle);
  EXPECT_EQ(fake.collect(id).tokens.size(), 1u);
}

TEST(Engine, GivesTokensAsTheyCome) {
  FakeEngine fake(options(1));
  const RequestId id = fake.submit(greedy(prompt_of(10, 1), 3));
  size_t tokens = 0;
  for (Finish finish = Finish::running; finish == Finish::running;) {
    fake.engine->step();
    const Progress progress = fake.collect(id);
    EXPECT_LE(progress.tokens.size(), 1u);
    tokens += progress.tokens.size();
    finish = progress.finish;
  }
  EXPECT_EQ(tokens, 3u);
  const Result<Progress> again = fake.engine->collect(id);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().text, cat("request ", id, ": is not known"));
}

TEST(Engine, StopsAtAStopTokenWhichBelongsToTheAnswer) {
  FakeEngine fake(options(1));
  Request request = greedy(prompt_of(40, 2), 20);
  History history;
  const std::vector<int32_t> all = oracle_answer(history, request);
  request.stop_tokens = {all[7]};
  const Progress progress = fake.answer(request);
  EXPECT_EQ(progress.finish, Finish::stop_token);
  EXPECT_EQ(progress.tokens.back().token, all[7]);
  EXPECT_LE(progress.tokens.size(), 8u);
}

TEST(Engine, AnAnswerEndsWithTheContext) {
  EngineOptions small = options(1);
  small.context = 128;
  FakeEngine fake(small);
  const Progress progress = fake.answer(greedy(prompt_of(120, 1), 100));
  EXPECT_EQ(progress.finish, Finish::length);
  EXPECT_EQ(progress.tokens.size(), 8u);
}

TEST(Engine, RefusesWhatCannotBeAnsweredWithOneSentence) {
  EngineOptions small = options(1);
  small.context = 128;
  FakeEngine fake(small);
  const auto problem = [&](const Request& request) { return fake.engine->submit(request).error().text; };
  EXPECT_EQ(problem(greedy({}, 5)), "request: has no tokens: want a prompt");
  EXPECT_EQ(problem(greedy(prompt_of(128, 1), 5)),
            "request: 128 tokens after a history of 0: want at most 127 together, the context being 128");
  EXPECT_EQ(problem(greedy({3, 50}, 5)), "prompt: token 1 is 50: want 0 to 49");
  EXPECT_EQ(problem(greedy({-1}, 5)), "prompt: token 0 is -1: want 0 to 49");
  Request request = greedy({1, 2, 3}, 1);
  request.logits_at = {1, 1};
  EXPECT_EQ(problem(request), "logits_at: entry 1 is 1: want ascending ones below 3");
  request.logits_at = {3};
  EXPECT_EQ(problem(request), "logits_at: entry 0 is 3: want ascending ones below 3");
  request = greedy({1, 2, 3}, 1);
  request.sequence = 77;
  EXPECT_EQ(problem(request), "sequence 77: is not open: want one that was kept");
  request.sequence = kNewSequence;
  request.sampling.top_p = 2;
  EXPECT_EQ(problem(request), "top-p is 2: want a number from 0 to 1");
  EXPECT_EQ(fake.held_pages(), 0u);
}

TEST(Engine, GivesTheLogitsOfPromptPositions) {
  for (const uint32_t rows : {1u, 5u, 64u}) {
    EngineOptions few = options(1);
    few.logits_rows = rows;
    FakeEngine fake(few);
    Request request = greedy(prompt_of(200, 3), 0);
    request.logits_at = {0, 5, 6, 7, 8, 63, 64, 130, 131, 132, 133, 134, 135, 198, 199};
    const Progress progress = fake.answer(request);
    ASSERT_EQ(progress.logits.size(), request.logits_at.size() * fake::kVocabulary);
    for (size_t i = 0; i < request.logits_at.size(); ++i) {
      History history = history_of(request.prompt);
      history.resize(request.logits_at[i] + 1);
      const auto begin = progress.logits.begin() + static_cast<std::ptrdiff_t>(i * fake::kVocabulary);
      EXPECT_EQ(std::vector<float>(begin, begin + fake::kVocabulary), fake::oracle(history))
          << "position " << request.logits_at[i] << ", " << rows << " rows a step";
    }
    EXPECT_EQ(progress.finish, Finish::length);
  }
}

TEST(Engine, LogitsOfAPromptInTheCacheAreComputedAgain) {
  FakeEngine fake(options(1));
  Request request = greedy(prompt_of(200, 3), 0);
  fake.answer(request);
  request.logits_at = {195, 199};
  const Progress progress = fake.answer(request);
  EXPECT_EQ(progress.reused_tokens, 192u);
  ASSERT_EQ(progress.logits.size(), 2u * fake::kVocabulary);
  EXPECT_EQ(std::vector<float>(progress.logits.begin() + fake::kVocabulary, progress.logits.end()),
            fake::oracle(history_of(request.prompt)));
}

TEST(Engine, APromptBatchIsRaggedAndAnswersAreOneBatch) {
  FakeEngine fake(options(3, 512));
  for (const size_t tokens : {5u, 41u, 100u}) fake.submit(greedy(prompt_of(tokens, static_cast<int32_t>(tokens)), 2));
  fake.run();
  ASSERT_EQ(fake.script.steps.size(), 2u);
  EXPECT_THAT(fake.script.steps[0].rows_of, ElementsAre(5, 41, 100));
  EXPECT_EQ(fake.script.steps[0].token_class, TokenClass::prompt);
  EXPECT_THAT(fake.script.steps[1].rows_of, ElementsAre(1, 1, 1));
  EXPECT_EQ(fake.script.steps[1].token_class, TokenClass::decode);
}

TEST(Engine, ARunningAnswerNeverWaitsLongerThanOneChunk) {
  FakeEngine fake(options(2, 64));
  fake.submit(greedy(prompt_of(5, 1), 30));
  fake.engine->step();
  fake.submit(greedy(prompt_of(600, 2), 1));
  fake.run();
  int prompts_in_a_row = 0;
  for (size_t i = 1; i < 20; ++i) {
    const fake::Script::Step& step = fake.script.steps[i];
    prompts_in_a_row = step.token_class == TokenClass::prompt ? prompts_in_a_row + 1 : 0;
    EXPECT_LE(prompts_in_a_row, 1);
    EXPECT_LE(step.rows, 64u);
  }
}

TEST(Engine, ASecondTurnComputesOnlyWhatIsNew) {
  FakeEngine fake(options(1));
  Request first = greedy(prompt_of(150, 1), 10);
  first.keep_sequence = true;
  History history;
  oracle_answer(history, first);
  const SequenceId sequence = fake.answer(first).sequence;
  Request second = greedy(prompt_of(30, 2), 10);
  second.sequence = sequence;
  const std::vector<int32_t> want = oracle_answer(history, second);
  const Progress progress = fake.answer(second);
  EXPECT_EQ(tokens_of(progress), want);
  EXPECT_EQ(progress.reused_tokens, 159u) << "all but the last token, which was not computed yet";
  EXPECT_EQ(progress.prompt_tokens, 190u);
  EXPECT_EQ(progress.computed_prompt_tokens, 31u);
}

TEST(Engine, APromptContinuedInsideARunGoesBackToAMultipleOf64) {
  FakeEngine fake(options(1));
  Request first = greedy(prompt_of(150, 1), 0);
  first.keep_sequence = true;
  Request second = greedy(prompt_of(30, 2), 5);
  History history;
  oracle_answer(history, first);
  second.sequence = fake.answer(first).sequence;
  const std::vector<int32_t> want = oracle_answer(history, second);
  const Progress progress = fake.answer(second);
  EXPECT_EQ(tokens_of(progress), want);
  EXPECT_EQ(progress.reused_tokens, 128u);
}

TEST(Engine, ARequestThatBeginsAsAnotherReusesItsPages) {
  FakeEngine fake(options(1));
  std::vector<int32_t> prompt = prompt_of(200, 1);
  fake.answer(greedy(prompt, 5));
  const std::vector<int32_t> question = prompt_of(20, 9);
  prompt.insert(prompt.end(), question.begin(), question.end());
  const Request request = greedy(prompt, 5);
  History history;
  const std::vector<int32_t> want = oracle_answer(history, request);
  const Progress progress = fake.answer(request);
  EXPECT_EQ(tokens_of(progress), want);
  EXPECT_EQ(progress.reused_tokens, 192u);
}

TEST(Engine, AnAnswerIsReusedAsPromptOnlyWhereClassesAreBitEqual) {
  for (const bool any_class : {false, true}) {
    fake::Script script;
    script.classes_bit_equal = any_class;
    FakeEngine fake(options(1), script);
    const Request first = greedy(prompt_of(100, 1), 100);
    History history;
    oracle_answer(history, first, any_class);
    fake.answer(first);
    std::vector<int32_t> both;
    for (const HistoryToken& token : history) both.push_back(token.token);
    const Request second = greedy(both, 3);
    History again;
    const std::vector<int32_t> want = oracle_answer(again, second, any_class);
    const Progress progress = fake.answer(second);
    EXPECT_EQ(tokens_of(progress), want);
    EXPECT_EQ(progress.reused_tokens, any_class ? 192u : 64u);
  }
}

TEST(Engine, MessageEndsLeaveSnapshotsForRequestsThatDifferBehindThem) {
  FakeEngine fake(options(1));
  std::vector<int32_t> prompt = prompt_of(140, 1);
  const std::vector<int32_t> rest = prompt_of(200, 2), other = prompt_of(200, 3);
  Request first = greedy(prompt, 1);
  first.prompt.insert(first.prompt.end(), rest.begin(), rest.end());
  first.message_ends = {140};
  fake.answer(first);
  Request second = greedy(prompt, 1);
  second.prompt.insert(second.prompt.end(), other.begin(), other.end());
  EXPECT_EQ(fake.answer(second).reused_tokens, 128u);
}

TEST(Engine, AForkSharesPagesUntilItWrites) {
  FakeEngine fake(options(2));
  Request first = greedy(prompt_of(100, 1), 10);
  first.keep_sequence = true;
  History history;
  oracle_answer(history, first);
  const SequenceId sequence = fake.answer(first).sequence;
  const uint32_t before = fake.held_pages();
  const Result<SequenceId> copy = fake.engine->fork(sequence);
  ASSERT_TRUE(copy);
  EXPECT_EQ(fake.held_pages(), before);

  History left = history, right = history;
  Request more = greedy(prompt_of(5, 4), 10), other = greedy(prompt_of(70, 5), 10);
  more.sequence = sequence;
  other.sequence = *copy;
  const std::vector<int32_t> want_left = oracle_answer(left, more), want_right = oracle_answer(right, other);
  const RequestId a = fake.submit(more), b = fake.submit(other);
  fake.run();
  EXPECT_EQ(tokens_of(fake.collect(a)), want_left);
  EXPECT_EQ(tokens_of(fake.collect(b)), want_right);
  EXPECT_GT(fake.script.copies, 0);
  EXPECT_EQ(fake.held_pages(), 0u);
}

TEST(Engine, TruncatingGivesTheBitsOfAShorterHistory) {
  for (const size_t keep : {0u, 1u, 63u, 64u, 70u, 127u, 128u, 150u, 155u, 160u, 200u, 250u}) {
    FakeEngine fake(options(1));
    Request first = greedy(prompt_of(150, 1), 100);
    first.keep_sequence = true;
    History history;
    oracle_answer(history, first);
    const SequenceId sequence = fake.answer(first).sequence;
    ASSERT_TRUE(fake.engine->truncate(sequence, keep));
    history.resize(keep);
    EXPECT_EQ(*fake.engine->history(sequence), history);
    Request second = greedy(prompt_of(20, 2), 5);
    second.sequence = sequence;
    const std::vector<int32_t> want = oracle_answer(history, second);
    EXPECT_EQ(tokens_of(fake.answer(second)), want) << "keeping " << keep;
  }
}

TEST(Engine, MisuseOfKeptSequencesIsOneSentence) {
  FakeEngine fake(options(1));
  Request first = greedy(prompt_of(10, 1), 2);
  first.keep_sequence = true;
  const RequestId id = fake.submit(first);
  const SequenceId sequence = fake.collect(id).sequence;
  EXPECT_EQ(fake.engine->fork(sequence).error().text,
            cat("sequence ", sequence, ": is extended by request ", id, ": want an idle one"));
  fake.run();
  EXPECT_EQ(fake.engine->truncate(sequence, 13).error().text,
            cat("sequence ", sequence, ": has 12 tokens: cannot keep 13"));
  EXPECT_TRUE(fake.engine->close(sequence));
  EXPECT_EQ(fake.engine->close(sequence).error().text,
            cat("sequence ", sequence, ": is not open: want one that was kept"));
  EXPECT_EQ(fake.engine->history(sequence).error().kind, ErrorKind::not_found);
}

TEST(Engine, WindowedGroupsFreePagesBehindTheWindow) {
  FakeEngine fake(options(1));
  Request request = greedy(prompt_of(700, 1), 60);
  request.keep_sequence = true;
  fake.answer(request);
  while (fake.engine->cache().evict()) {
  }
  const auto held = [&](uint32_t g) {
    return fake.engine->cache().pool(g).size() - fake.engine->cache().pool(g).free();
  };
  EXPECT_EQ(held(0), 12u) << "759 positions";
  // From position 704 - 96 + 1 on: pages 9, 10 and 11.
  EXPECT_EQ(held(1), 3u);
}

TEST(Engine, CancellingLeavesOthersUnchanged) {
  fake::Script slow;
  slow.polls_until_done = 1;
  FakeEngine fake(options(3, 64), slow);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 4; ++i) {
    requests.push_back(greedy(prompt_of(static_cast<size_t>(40 + 60 * i), i), 20));
    requests.back().keep_sequence = true;
    ids.push_back(fake.submit(requests.back()));
  }
  for (int i = 0; i < 9; ++i) fake.engine->step();
  fake.engine->cancel(ids[0]);  // decoding, or in flight
  fake.engine->cancel(ids[2]);
  fake.engine->cancel(ids[3]);  // waiting
  fake.engine->cancel(12345);
  fake.run();
  History history;
  const std::vector<int32_t> want = oracle_answer(history, requests[1]);
  EXPECT_EQ(tokens_of(fake.collect(ids[1])), want);
  for (const size_t i : {0u, 2u, 3u}) {
    const Progress progress = fake.collect(ids[i]);
    EXPECT_EQ(progress.finish, Finish::cancelled);
    History stood;
    Request shorter = requests[i];
    shorter.max_tokens = static_cast<uint32_t>(progress.tokens.size());
    EXPECT_EQ(tokens_of(progress), oracle_answer(stood, shorter));
    EXPECT_EQ(*fake.engine->history(progress.sequence), stood) << "what was given stands";
    Request more = greedy(prompt_of(7, 3), 4);
    more.sequence = progress.sequence;
    const std::vector<int32_t> after = oracle_answer(stood, more);
    EXPECT_EQ(tokens_of(fake.answer(more)), after);
  }
}

// A step that is run again for more of its logits has pages for rows that do not stand yet.
TEST(Engine, AnIdleSequenceHoldsNoPagesForRejectedRows) {
  EngineOptions one_row = options(1, 64);
  one_row.logits_rows = 1;
  fake::Script slow;
  slow.polls_until_done = 1;
  FakeEngine fake(one_row, slow);
  Request request = greedy(prompt_of(300, 1), 10);
  request.keep_sequence = true;
  request.logits_at = {70, 71, 72, 73};
  const RequestId id = fake.submit(request);
  while (fake.engine->stats().prompt_rows < 128) fake.engine->step();  // the second chunk for the first time
  fake.engine->step();
  fake.engine->cancel(id);
  fake.run();
  EXPECT_EQ(fake.collect(id).finish, Finish::cancelled);
  EXPECT_EQ(fake.held_pages(), 2u) << "the first chunk's, one of each group";
}

TEST(Engine, ShortOfPagesTheYoungestIsDroppedAndComputedAgain) {
  EngineOptions tight = options(3, 64);
  tight.context = 320;
  tight.cache_positions = 512;  // 8 pages for what wants 15
  FakeEngine fake(tight);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 3; ++i) {
    requests.push_back(greedy(prompt_of(60, i), 240));
    ids.push_back(fake.submit(requests.back()));
  }
  fake.run();
  for (size_t i = 0; i < 3; ++i) {
    History history;
    const std::vector<int32_t> want = oracle_answer(history, requests[i]);
    const Progress progress = fake.collect(ids[i]);
    EXPECT_EQ(progress.finish, Finish::length);
    EXPECT_EQ(tokens_of(progress), want) << "request " << i;
  }
  EXPECT_GT(fake.engine->stats().prompt_rows, 180u) << "the pools were not short";
  EXPECT_EQ(fake.held_pages(), 0u);
}

TEST(Engine, IdleSequencesGiveTheirPagesToRunningOnes) {
  EngineOptions tight = options(1);
  tight.context = 256;
  tight.cache_positions = 256;
  FakeEngine fake(tight);
  std::vector<History> histories(3);
  std::vector<SequenceId> sequences;
  for (int32_t i = 0; i < 3; ++i) {
    Request request = greedy(prompt_of(150, i), 10);
    request.keep_sequence = true;
    oracle_answer(histories[static_cast<size_t>(i)], request);
    sequences.push_back(fake.answer(request).sequence);
  }
  for (size_t i = 0; i < 3; ++i) {
    Request more = greedy(prompt_of(10, 7), 10);
    more.sequence = sequences[i];
    const std::vector<int32_t> want = oracle_answer(histories[i], more);
    EXPECT_EQ(tokens_of(fake.answer(more)), want);
  }
}

TEST(Engine, AConversationThatWaitsGivesItsPagesToTheRunningOne) {
  EngineOptions tight = options(1);
  tight.context = 256;
  tight.cache_positions = 256;
  FakeEngine fake(tight);
  Request first = greedy(prompt_of(150, 1), 10);
  first.keep_sequence = true;
  History history, alone;
  oracle_answer(history, first);
  Request more = greedy(prompt_of(10, 2), 5);
  more.sequence = fake.answer(first).sequence;
  const std::vector<int32_t> want = oracle_answer(history, more);
  const Request other = greedy(prompt_of(240, 3), 5);
  const std::vector<int32_t> other_want = oracle_answer(alone, other);
  const RequestId runs = fake.submit(other), waits = fake.submit(more);
  for (int steps = 0; steps < 100; ++steps) fake.engine->step();
  EXPECT_EQ(tokens_of(fake.collect(runs)), other_want);
  EXPECT_EQ(tokens_of(fake.collect(waits)), want);
}

TEST(Engine, ANonFiniteResultEndsThatSequenceWithStepLayerAndOp) {
  FakeEngine fake(options(3, 128));
  Request sick = greedy(prompt_of(150, 1), 5), well = greedy(prompt_of(90, 2), 5);
  sick.prompt[70] = fake::kPoison;
  sick.keep_sequence = true;
  Request poisoned_later = greedy(prompt_of(20, 3), 30);  // by its own answer
  poisoned_later.sampling.logit_bias = {{fake::kPoison, 1000.0f}};
  const RequestId a = fake.submit(sick), b = fake.submit(well), c = fake.submit(poisoned_later);
  fake.run();
  const Progress failed = fake.collect(a);
  EXPECT_EQ(failed.finish, Finish::failed);
  EXPECT_EQ(failed.failure->text, "token 70: layer 3, rms_norm: result is not finite");
  EXPECT_EQ(failed.failure->kind, ErrorKind::invalid);
  EXPECT_TRUE(fake.engine->history(failed.sequence)->empty()) << "as before the request";
  const Progress later = fake.collect(c);
  EXPECT_EQ(later.failure->text, "token 20: layer 3, rms_norm: result is not finite");
  EXPECT_THAT(tokens_of(later), ElementsAre(fake::kPoison));
  History history;
  EXPECT_EQ(tokens_of(fake.collect(b)), oracle_answer(history, well));
  for (const fake::Script::Step& step : fake.script.steps)
    EXPECT_TRUE(!step.diagnosing || step.rows_of.size() == 1u) << "alone";
}

TEST(Engine, NothingOfAFailedSequenceIsReused) {
  FakeEngine fake(options(1, 512));
  Request sick = greedy(prompt_of(150, 1), 5);
  sick.prompt[100] = fake::kPoison;
  EXPECT_EQ(fake.answer(sick).finish, Finish::failed);
  EXPECT_EQ(fake.engine->cache().snapshots(), 0u);
  EXPECT_EQ(fake.held_pages(), 0u);
}

TEST(Engine, AFailedStepFailsItsRequestsAndNoOther) {
  fake::Script script;
  script.fail_step = 4;
  FakeEngine fake(options(2, 64), script);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 4; ++i) {
    requests.push_back(greedy(prompt_of(static_cast<size_t>(100 + 20 * i), i), 10));
    requests.back().keep_sequence = true;
    ids.push_back(fake.submit(requests.back()));
  }
  fake.run();
  int failures = 0;
  for (size_t i = 0; i < 4; ++i) {
    const Progress progress = fake.collect(ids[i]);
    History history;
    const std::vector<int32_t> want = oracle_answer(history, requests[i]);
    if (progress.finish == Finish::failed) {
      ++failures;
      EXPECT_EQ(progress.failure->text, "fake: the device was lost");
      EXPECT_TRUE(fake.engine->history(progress.sequence)->empty());
    } else {
      EXPECT_EQ(tokens_of(progress), want) << "request " << i;
    }
  }
  EXPECT_GT(failures, 0);
  EXPECT_LT(failures, 4);
  History history;
  const std::vector<int32_t> want = oracle_answer(history, requests[0]);
  EXPECT_EQ(tokens_of(fake.answer(requests[0])), want) << "the engine goes on";
}

TEST(Engine, RefusesOptionsThatMakeNoSense) {
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  Budget budget;
  const auto problem = [&](const EngineOptions& wrong) {
    return create_engine(fake::model(), *device, budget, wrong).error().text;
  };
  EXPECT_EQ(problem(options(0)), "sequences are 0: want 1 to 4096");
  EXPECT_EQ(problem(options(1, 100)), "prompt chunk is 100 rows: want a multiple of 64 up to 65536");
  EngineOptions wrong;
  wrong.context = 2000;
  EXPECT_EQ(problem(wrong), "context is 2000 tokens: want at most the model's 1024");
  wrong.context = 0;
  wrong.logits_rows = 0;
  EXPECT_EQ(problem(wrong), "logits rows are 0: want 1 to 512");
}

TEST(Engine, AnOpenContextShrinksToTheBudget) {
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  Budget budget;
  budget.set_limit(Domain::host, 400000);  // the step buffer and pages for some 512 positions
  EngineOptions open = options(1);
  const auto engine = create_engine(fake::model(1 << 20), *device, budget, open);
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_LT((*engine)->context(), 1u << 20);
  EXPECT_GE((*engine)->context(), 256u);
  open.context = 1 << 20;
  const auto fixed = create_engine(fake::model(1 << 20), *device, budget, open);
  ASSERT_FALSE(fixed);
  EXPECT_EQ(fixed.error().kind, ErrorKind::out_of_memory);
}

TEST(Engine, SamplingDependsOnSeedChoiceAndPositionNotOnTheSlot) {
  Request request = greedy(prompt_of(30, 1), 12);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 99;
  FakeEngine alone(options(1));
  const std::vector<int32_t> want = tokens_of(alone.answer(request));
  FakeEngine crowd(options(6));
  for (int32_t i = 0; i < 4; ++i) crowd.submit(greedy(prompt_of(50, i), 20));
  const RequestId id = crowd.submit(request);
  Request other_choice = request, other_seed = request;
  other_choice.choice = 1;
  other_seed.sampling.seed = 100;
  const RequestId choice = crowd.submit(other_choice);
  crowd.run();
  EXPECT_EQ(tokens_of(crowd.collect(id)), want);
  EXPECT_NE(tokens_of(crowd.collect(choice)), want);
  EXPECT_NE(tokens_of(crowd.answer(other_seed)), want);
}

// --- recurrent states

FakeEngine with_slots(uint32_t sequences = 2) {
  EngineOptions options;
  options.sequences = sequences;
  options.prompt_chunk = 256;
  fake::Script script;
  script.classes_bit_equal = script.slots = true;
  return FakeEngine(options, script);
}

TEST(RecurrentState, ASecondTurnComputesOnlyWhatIsNew) {
  FakeEngine fake = with_slots();
  Request first = greedy(prompt_of(700, 1), 5);
  first.keep_sequence = true;
  History history;
  const std::vector<int32_t> want = oracle_answer(history, first, true, true);
  const Progress answer = fake.answer(first);
  EXPECT_EQ(tokens_of(answer), want);
  Request second = greedy(prompt_of(20, 2), 3);
  second.sequence = answer.sequence;
  const std::vector<int32_t> want_second = oracle_answer(history, second, true, true);
  const Progress next = fake.answer(second);
  EXPECT_EQ(tokens_of(next), want_second);
  EXPECT_EQ(next.reused_tokens, 704u) << "all but the last sampled token";
}

TEST(RecurrentState, ARequestThatBeginsAlikeGoesOnFromTheLastMultipleOf64) {
  FakeEngine fake = with_slots();
  fake.answer(greedy(prompt_of(700, 1), 0));
  Request longer = greedy(prompt_of(720, 1), 2);
  History history;
  const std::vector<int32_t> want = oracle_answer(history, longer, true, true);
  const Progress answer = fake.answer(longer);
  EXPECT_EQ(tokens_of(answer), want);
  EXPECT_EQ(answer.reused_tokens, 640u) << "the last multiple of 64 below the first prompt's end";
}

TEST(RecurrentState, TruncatingGoesBackToASnapshot) {
  FakeEngine fake = with_slots();
  Request first = greedy(prompt_of(600, 3), 0);
  first.keep_sequence = true;
  const Progress answer = fake.answer(first);
  ASSERT_TRUE(fake.engine->truncate(answer.sequence, 530));
  Request next = greedy(prompt_of(10, 4), 2);
  next.sequence = answer.sequence;
  std::vector<int32_t> kept = prompt_of(600, 3);
  kept.resize(530);
  History history = history_of(kept);
  const std::vector<int32_t> want = oracle_answer(history, next, true, true);
  const Progress progress = fake.answer(next);
  EXPECT_EQ(tokens_of(progress), want);
  EXPECT_EQ(progress.reused_tokens, 512u);
}

TEST(RecurrentState, EvictsSnapshotsForRunningSequences) {
  FakeEngine fake = with_slots(3);
  for (int32_t seed = 0; seed < 8; ++seed) fake.answer(greedy(prompt_of(200, seed), 0));
  std::vector<RequestId> ids;
  std::vector<std::vector<int32_t>> wants;
  for (int32_t seed = 0; seed < 3; ++seed) {
    const Request request = greedy(prompt_of(150, 10 + seed), 4);
    History history;
    wants.push_back(oracle_answer(history, request, true, true));
    ids.push_back(fake.submit(request));
  }
  fake.run();
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(tokens_of(fake.collect(ids[i])), wants[i]);
  EXPECT_EQ(fake.held_pages(), 0u);
}

}  // namespace
}  // namespace sluice

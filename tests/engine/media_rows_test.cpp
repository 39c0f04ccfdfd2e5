// Rows of pictures and sounds in a history, over the device that betrays every wrong page: they are told apart by their
// content wherever something computed is used again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/state/state_store.h"
#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

class MediaRows : public testing::Test {
 protected:
  ~MediaRows() override { std::filesystem::remove_all(folder); }

  // 200 tokens, of which rows of the picture stand in the place of those from 90 to 189.
  static Request about(uint8_t name) {
    Request request = greedy(prompt_of(200, 1), 20);
    request.media = {{.at = 90, .rows = 100, .content = fake::picture_digest(name)}};
    return request;
  }
  static History history_of_request(const Request& request) {
    History history = history_of(request.prompt);
    for (const MediaSpan& span : request.media)
      for (uint32_t row = 0; row < span.rows; ++row) history[span.at + row].media = {span.content, row, span.shape};
    return history;
  }
  static std::vector<int32_t> want(const Request& request) {
    History history = history_of_request(request);
    Request rest = request;
    rest.prompt.clear();
    return oracle_answer(history, rest);
  }
  // Its pictures 1 and 2 are given.
  FakeEngine engine(StateStore* states = nullptr) {
    EngineOptions options;
    options.states = states;
    FakeEngine made(options, script, fake::media_model());
    for (const uint8_t name : {1, 2}) EXPECT_TRUE(made.engine->give_media(fake::picture(name, 100)));
    return made;
  }

  fake::Script script;
  const std::string folder = cat(testing::TempDir(), ::getpid(), "_media_rows_test");
};

TEST_F(MediaRows, ShareNothingBehindTheFirstDifferentContent) {
  FakeEngine fake = engine();
  EXPECT_EQ(tokens_of(fake.answer(about(1))), want(about(1)));
  const Progress other = fake.answer(about(2));
  EXPECT_EQ(tokens_of(other), want(about(2)));
  EXPECT_NE(want(about(1)), want(about(2)));
  EXPECT_LE(other.reused_tokens, 64u);
  const Progress again = fake.answer(about(1));
  EXPECT_EQ(tokens_of(again), want(about(1)));
  EXPECT_EQ(again.reused_tokens, 192u);
  Request moved = about(1);  // its first rows are cut off
  moved.media[0] = {.at = 90, .rows = 99, .content = fake::picture_digest(1)};
  EXPECT_EQ(tokens_of(fake.answer(moved)), want(moved));
}

TEST_F(MediaRows, AreKeptWithSavedSequences) {
  Request request = about(2);
  request.keep_sequence = true;
  FakeEngine before = engine();
  const SequenceId sequence = before.answer(request).sequence;
  const std::string path = folder + ".saved";
  ASSERT_TRUE(before.engine->save(sequence, path));
  FakeEngine after = engine();
  std::string note;
  Request more = greedy(prompt_of(30, 5), 10);
  more.sequence = unwrap(after.engine->load(path, &note));
  std::filesystem::remove(path);
  const History kept = unwrap(after.engine->history(more.sequence));
  EXPECT_EQ(kept, unwrap(before.engine->history(sequence)));
  EXPECT_EQ(kept[189].media, (MediaRow{fake::picture_digest(2), 99}));
  History history = kept;
  const std::vector<int32_t> answer = oracle_answer(history, more);
  const Progress progress = after.answer(more);
  EXPECT_EQ(tokens_of(progress), answer);
  EXPECT_EQ(progress.reused_tokens, 192u);
}

TEST_F(MediaRows, NameStatesInTheStore) {
  StateStore store(folder, uint64_t{1} << 30);
  FakeEngine before = engine(&store);
  Request request = about(1);
  request.keep_sequence = true;
  before.engine->keep_state(before.answer(request).sequence);
  FakeEngine after = engine(&store), third = engine(&store);
  const Progress other = after.answer(about(2));
  EXPECT_EQ(tokens_of(other), want(about(2)));
  EXPECT_EQ(other.restored_tokens, 0u);
  const Progress same = third.answer(about(1));
  EXPECT_EQ(tokens_of(same), want(about(1)));
  EXPECT_EQ(same.restored_tokens, 192u);
  EXPECT_TRUE(store.take_notes().empty());
}

TEST_F(MediaRows, AreRefusedWithoutAPlaceInModelOrPrompt) {
  FakeEngine tokens_alone;
  EXPECT_EQ(tokens_alone.engine->submit(about(1)).error().text,
            "request: has pictures or sounds: want tokens alone for this model");
  FakeEngine fake = engine();
  Request beyond = about(1);
  beyond.media[0].at = 101;
  EXPECT_EQ(fake.engine->submit(beyond).error().text,
            "media: entry 0 is of 100 rows at token 101: want some within the prompt's 200 tokens, behind entries "
            "before it");
  const Progress gone = fake.answer(about(3));
  ASSERT_EQ(gone.finish, Finish::failed);
  EXPECT_EQ(gone.failure->text, "row 0 of its picture or sound is not there: want it given again");
}

TEST_F(MediaRows, AreComputedOnceHoweverOftenTheyAreShown) {
  FakeEngine fake = engine();
  Request twice = greedy(prompt_of(300, 1), 5);
  twice.media = {{.at = 20, .rows = 100, .content = fake::picture_digest(1)},
                 {.at = 150, .rows = 100, .content = fake::picture_digest(1)}};
  EXPECT_EQ(tokens_of(fake.answer(twice)), want(twice));
  EXPECT_EQ(tokens_of(fake.answer(about(1))), want(about(1)));
  EXPECT_EQ(fake.script.tower_starts, 1);
}

// One step has all rows of such a picture, though they are more than a chunk, and nothing ends inside it.
TEST_F(MediaRows, OfAPictureThatSeesAheadAreNeverCut) {
  EngineOptions options;
  options.prompt_chunk = 64;
  FakeEngine fake(options, script, fake::media_model());
  ASSERT_TRUE(fake.engine->give_media(fake::picture(1, 100)));
  Request request = about(1);
  request.media[0].shape.sees_ahead = 1;
  request.message_ends = {130};  // inside
  EXPECT_EQ(tokens_of(fake.answer(request)), want(request));
  EXPECT_EQ(fake.script.steps[0].rows, 64u);
  EXPECT_EQ(fake.script.steps[1].rows, 128u);
  Request longer = request;
  longer.prompt.push_back(7);
  const Progress again = fake.answer(longer);
  EXPECT_EQ(tokens_of(again), want(longer));
  EXPECT_EQ(again.reused_tokens, 192u);
  longer.media[0].rows = 201;
  longer.prompt = prompt_of(400, 3);
  EXPECT_EQ(fake.engine->submit(longer).error().text, "media: entry 0 is of 201 rows: want at most 200");
}

// A sequence that is cut back into such a picture sees less of it, so that all of its rows are computed again.
TEST_F(MediaRows, OfAPictureThatSeesAheadAreComputedAgainWhenItIsCutBack) {
  FakeEngine fake = engine();
  Request request = about(1);
  request.media[0].shape.sees_ahead = 1;
  request.keep_sequence = true;
  Request more = greedy(prompt_of(9, 2), 6);
  more.sequence = fake.answer(request).sequence;
  ASSERT_TRUE(fake.engine->truncate(more.sequence, 150));
  History history = unwrap(fake.engine->history(more.sequence));
  const std::vector<int32_t> answer = oracle_answer(history, more);
  EXPECT_EQ(tokens_of(fake.answer(more)), answer);
}

TEST_F(MediaRows, OfATowerThatFailsFailTheRequestAlone) {
  script.fail_tower = 0;
  FakeEngine fake = engine();
  const RequestId about_picture = fake.submit(about(1)), words = fake.submit(greedy(prompt_of(30, 2), 4));
  fake.run();
  const Progress failed = fake.collect(about_picture);
  ASSERT_EQ(failed.finish, Finish::failed);
  EXPECT_EQ(failed.failure->text, "fake: the tower fell");
  EXPECT_EQ(fake.collect(words).tokens.size(), 4u);
  ASSERT_TRUE(fake.engine->give_media(fake::picture(1, 100)));
  EXPECT_EQ(tokens_of(fake.answer(about(1))), want(about(1)));
}

}  // namespace
}  // namespace sluice

// Rows of pictures and sounds in a history, over the device that betrays every wrong page: they are told apart by their
// content wherever something computed is used again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/state/state_store.h"
#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

MediaDigest picture(uint8_t name) {
  MediaDigest digest{};
  digest[15] = name;
  return digest;
}

class MediaRows : public testing::Test {
 protected:
  MediaRows() {
    for (const uint8_t name : {1, 2})
      for (uint32_t row = 0; row < 100; ++row) script.media.push_back({picture(name), row});
  }
  ~MediaRows() override { std::filesystem::remove_all(folder); }

  // 200 tokens, of which rows of the picture stand in the place of those from 90 to 189.
  static Request about(uint8_t name) {
    Request request = greedy(prompt_of(200, 1), 20);
    request.media = {{.at = 90, .rows = 100, .content = picture(name)}};
    return request;
  }
  static History history_of_request(const Request& request) {
    History history = history_of(request.prompt);
    for (const MediaSpan& span : request.media)
      for (uint32_t row = 0; row < span.rows; ++row) history[span.at + row].media = {span.content, row};
    return history;
  }
  static std::vector<int32_t> want(const Request& request) {
    History history = history_of_request(request);
    Request rest = request;
    rest.prompt.clear();
    return oracle_answer(history, rest);
  }
  FakeEngine engine(StateStore* states = nullptr) {
    EngineOptions options;
    options.states = states;
    return {options, script, fake::media_model(script.media)};
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
  moved.media[0] = {.at = 90, .rows = 99, .content = picture(1)};
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
  EXPECT_EQ(kept[189].media, (MediaRow{picture(2), 99}));
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
  EXPECT_EQ(gone.failure->text, "token 90: row 0 of its picture or sound is not there: want it given again");
}

}  // namespace
}  // namespace sluice

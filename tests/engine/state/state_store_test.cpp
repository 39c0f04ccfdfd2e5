// States on disk, over a fake device whose answers show every wrong page. After a restart the answer is the same and
// few rows are computed. Damaged, foreign, hostile and missing files do not change the answer.
#include "engine/state/state_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files/kept_files.h"
#include "engine/session.h"
#include "tests/engine/engine_run.h"
#include "tests/engine/real_engine.h"
#include "tests/engine/state/saved_bytes.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kRoom = uint64_t{1} << 30;

std::vector<std::byte> bytes_of_file(const std::string& path) {
  const std::string text = *read_file(path, kRoom);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void put_file(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  CHECK(file.good());
}

class StateStoreTest : public testing::Test {
 protected:
  StateStoreTest() { std::filesystem::remove_all(folder); }
  ~StateStoreTest() override { std::filesystem::remove_all(folder); }

  static EngineOptions options(StateStore& store) {
    EngineOptions options;
    options.prompt_chunk = 128;
    options.states = &store;
    return options;
  }
  // What one run of a program does: turns on a new engine, which must answer as the oracle does.
  std::vector<Progress> talk(StateStore& store, const std::vector<Request>& turns, const fake::Script& script = {}) {
    FakeEngine fake(options(store), script);
    std::vector<Progress> all;
    History history;
    SequenceId sequence = kNewSequence;
    for (Request turn : turns) {
      const std::vector<int32_t> want = oracle_answer(history, turn, script.classes_bit_equal, script.slots);
      turn.sequence = sequence;
      turn.keep_sequence = true;
      all.push_back(fake.answer(turn));
      sequence = all.back().sequence;
      EXPECT_EQ(tokens_of(all.back()), want);
      fake.engine->keep_state(sequence);
    }
    return all;
  }
  std::vector<Progress> talk(const std::vector<Request>& turns, const fake::Script& script = {}) {
    StateStore store(folder, kRoom);
    std::vector<Progress> all = talk(store, turns, script);
    notes = store.take_notes();
    return all;
  }
  // Names in the folder that end so.
  std::vector<std::string> files(const std::string& ending = ".state") const {
    std::vector<std::string> found;
    const Result<std::vector<std::string>> names = list_directory(folder);
    for (const std::string& name : names ? *names : std::vector<std::string>())
      if (ends_with(name, ending)) found.push_back(join_path(folder, name));
    return found;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const std::string& path : files("")) sum += file_facts(path)->bytes;
    return sum;
  }

  const std::string folder = cat(testing::TempDir(), ::getpid(), "_state_store_test");
  std::vector<std::string> notes;
};

Request with_message_end(Request request, uint32_t end) {
  request.message_ends = {end};
  return request;
}

TEST_F(StateStoreTest, AfterARestartAPromptComputesWhatFollowsItsLastBlock) {
  const Request request = greedy(prompt_of(400, 1), 50);
  EXPECT_EQ(talk({request})[0].restored_tokens, 0u);
  const Progress again = talk({request})[0];
  EXPECT_EQ(again.reused_tokens, 384u);
  EXPECT_EQ(again.restored_tokens, 384u);
  EXPECT_EQ(again.computed_prompt_tokens, 16u);
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(StateStoreTest, AfterARestartSlotsAndBitEqualClassesAreFound) {
  for (const bool slots : {false, true}) {
    fake::Script script;
    script.slots = slots;
    script.classes_bit_equal = !slots;
    std::filesystem::remove_all(folder);
    const Request request = greedy(prompt_of(400, 1), 50);
    talk({request}, script);
    EXPECT_EQ(talk({request}, script)[0].restored_tokens, 384u) << slots;
  }
}

TEST_F(StateStoreTest, AWholeChatGoesOnFromTheEndOfItsAnswer) {
  const Request first = greedy(prompt_of(200, 1), 80);
  fake::Script script;
  script.classes_bit_equal = true;
  talk({first}, script);
  History history;
  oracle_answer(history, first, true);
  Request second = greedy({}, 10);
  for (const HistoryToken& token : history) second.prompt.push_back(token.token);
  for (const int32_t token : prompt_of(20, 3)) second.prompt.push_back(token);
  EXPECT_EQ(talk({second}, script)[0].restored_tokens, 256u) << "279 of 280 tokens are computed";
}

// Where classes differ in bits they are part of the name: an answer given as a prompt is another history.
TEST_F(StateStoreTest, AnAnswerGivenAsAPromptIsAnotherHistory) {
  const Request first = greedy(prompt_of(200, 1), 80);
  talk({first});
  History history;
  oracle_answer(history, first);
  Request second = greedy({}, 10);
  for (const HistoryToken& token : history) second.prompt.push_back(token.token);
  EXPECT_EQ(talk({second})[0].restored_tokens, 192u);
}

TEST_F(StateStoreTest, PromptsThatShareAMessageShareItsState) {
  std::vector<int32_t> system = prompt_of(300, 1), a = system, b = system;
  for (const int32_t token : prompt_of(100, 2)) a.push_back(token);
  for (const int32_t token : prompt_of(100, 3)) b.push_back(token);
  talk({with_message_end(greedy(a, 4), 300)});
  ASSERT_THAT(files(), SizeIs(2)) << "the message, and what follows it";
  const uint64_t before = bytes();
  EXPECT_EQ(talk({with_message_end(greedy(b, 4), 300)})[0].restored_tokens, 256u);
  ASSERT_THAT(files(), SizeIs(3));
  EXPECT_LT(bytes() - before, before / 2) << "the message is not written again";
  EXPECT_EQ(talk({greedy(a, 4)})[0].restored_tokens, 384u);
}

TEST_F(StateStoreTest, AnotherModelOrDeviceFindsNothing) {
  const Request request = greedy(prompt_of(400, 1), 5);
  talk({request});
  fake::Script other;
  other.numerics = "fake/2";
  EXPECT_EQ(talk({request}, other)[0].restored_tokens, 0u);
  StateStore store(folder, kRoom);
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  Budget budget;
  TextModel model = fake::model();
  model.digest = [] { return std::string("another model"); };
  const auto engine = create_engine(std::move(model), *device, budget, options(store));
  const RequestId id = *(*engine)->submit(request);
  run_until_idle(**engine, Waiting::yes);
  EXPECT_EQ((*engine)->collect(id)->restored_tokens, 0u);
}

// Both are kept side by side: what one computed does not push out what the other did.
TEST_F(StateStoreTest, StatesOfTwoNumericsIdsHaveTwoNames) {
  const Request request = greedy(prompt_of(400, 1), 5);
  fake::Script other;
  other.numerics = "fake/2";
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(talk({request})[0].restored_tokens, run == 0 ? 0u : 384u);
    EXPECT_THAT(notes, IsEmpty());
    EXPECT_EQ(talk({request}, other)[0].restored_tokens, run == 0 ? 0u : 384u);
    EXPECT_THAT(notes, IsEmpty());
    EXPECT_THAT(files(), SizeIs(2));
    EXPECT_THAT(files(".damaged"), IsEmpty());
  }
}

// ---- whose folder it is

using std::filesystem::perms;

TEST_F(StateStoreTest, FolderAndFilesAreTheirOwnersAlone) {
  const mode_t before = ::umask(0);
  talk({greedy(prompt_of(200, 1), 5)});
  const StateStore below(folder + "/not/yet/", kRoom);
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder).permissions(), perms::owner_all);
  EXPECT_EQ(std::filesystem::status(folder + "/not/yet").permissions(), perms::owner_all);
  ASSERT_THAT(files(), SizeIs(1));
  EXPECT_EQ(std::filesystem::status(files()[0]).permissions(), perms::owner_read | perms::owner_write);
}

TEST_F(StateStoreTest, AFolderThatOthersMayWriteToIsNotUsed) {
  const Request request = greedy(prompt_of(400, 1), 5);
  talk({request});
  ASSERT_THAT(files(), SizeIs(1));
  for (const perms more : {perms::group_write, perms::others_write}) {
    std::filesystem::permissions(folder, perms::owner_all | more);
    EXPECT_EQ(talk({request, greedy(prompt_of(200, 2), 5)})[0].restored_tokens, 0u);
    ASSERT_THAT(notes, SizeIs(1));
    EXPECT_EQ(notes[0], cat(folder, ": others may write to it: want a folder that is yours alone (chmod 700) ",
                            "(no states are kept)"));
    EXPECT_THAT(files(), SizeIs(1));
  }
  std::filesystem::permissions(folder, perms::owner_all | perms::group_read | perms::others_read);
  EXPECT_EQ(talk({request})[0].restored_tokens, 384u) << "who may only list it reads no file in it";
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(StateStoreTest, AFolderOfAnotherUserIsNotUsed) {
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, perms::owner_all);
  if (::chown(folder.c_str(), 65534, 65534) != 0) GTEST_SKIP() << "only root gives folders away";
  talk({greedy(prompt_of(200, 1), 5)});
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0], folder + ": belongs to another user: want a folder of your own (no states are kept)");
  EXPECT_THAT(files(""), IsEmpty());
}

TEST_F(StateStoreTest, DamageAnywhereIsSetAsideWithOneSentence) {
  const Request request = greedy(prompt_of(200, 1), 5);
  talk({request});
  ASSERT_THAT(files(), SizeIs(1));
  const std::string path = files()[0];
  const std::vector<std::byte> whole = bytes_of_file(path);
  for (size_t at = 0; at < whole.size(); at += at < 300 || at + 100 > whole.size() ? 7 : 311) {
    std::vector<std::byte> bytes = whole;
    bytes[at] ^= std::byte{0x10};
    put_file(path, bytes);
    EXPECT_EQ(talk({request})[0].restored_tokens, 0u) << "byte " << at;
    ASSERT_THAT(notes, SizeIs(1)) << "byte " << at;
    EXPECT_THAT(notes[0], HasSubstr(".state.damaged; what it held is computed again)"));
    EXPECT_EQ(bytes_of_file(path), whole) << "computed and kept again";
  }
  EXPECT_THAT(files(".damaged"), SizeIs(1));
}

TEST_F(StateStoreTest, TruncatedAndForeignFilesAreSetAside) {
  const Request request = greedy(prompt_of(200, 1), 5);
  talk({request});
  const std::string path = files()[0];
  const std::vector<std::byte> whole = bytes_of_file(path);
  std::vector<size_t> sizes = {0, 1, 47, 48, 64, 200, whole.size() / 2, whole.size() - 1};
  for (const size_t size : sizes) {
    put_file(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_EQ(talk({request})[0].restored_tokens, 0u) << size << " bytes";
    EXPECT_THAT(notes, SizeIs(1)) << size << " bytes";
  }
  std::vector<std::byte> other_version = whole;
  other_version[8] = std::byte{7};
  put_file(path, other_version);
  talk({request});
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_THAT(notes[0], HasSubstr("is of version 7: want 3"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  talk({request});
  EXPECT_THAT(notes, SizeIs(1)) << "a folder in the file's place: nothing can be kept";
}

// What an attacker could write who does not forge pages: every number another, with checksums that fit.
TEST_F(StateStoreTest, RightChecksumsOverWrongContentChangeNoAnswer) {
  const Request request = greedy(prompt_of(200, 1), 5);
  talk({request});
  const std::string path = files()[0];
  const std::vector<std::byte> whole = bytes_of_file(path);
  const size_t pages_at = whole.size() - 3 * kChecksumBytes - (3 + 3) * fake::kPageBytes;
  for (size_t at = 0; at < pages_at; at += at < 140 ? 1 : 13) {
    for (const std::byte change : {std::byte{1}, std::byte{0x80}}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] ^= change;
      put_file(path, with_checksums(bytes));
      EXPECT_EQ(talk({request})[0].restored_tokens, 0u) << "byte " << at;
      EXPECT_THAT(notes, SizeIs(1)) << "byte " << at;
    }
  }
}

TEST_F(StateStoreTest, AFileUnderAnothersNameIsSetAside) {
  const Request request = greedy(prompt_of(200, 1), 5), other = greedy(prompt_of(200, 2), 5);
  talk({request});
  const std::string path = files()[0];
  std::filesystem::rename(path, folder + "/kept");
  talk({other});
  std::filesystem::rename(folder + "/kept", files()[0]);
  EXPECT_EQ(talk({other})[0].restored_tokens, 0u);
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_THAT(notes[0], HasSubstr(": its history is not what its name says"));
}

TEST_F(StateStoreTest, DamagedFilesAreNotKeptForEver) {
  for (int32_t seed = 0; seed < 12; ++seed) {
    const Request request = greedy(prompt_of(100, seed), 2);
    talk({request});
    for (const std::string& path : files()) put_file(path, {});
    talk({request});
  }
  EXPECT_LE(files(".damaged").size(), 8u);
}

TEST_F(StateStoreTest, TheLeastRecentlyUsedGoFirst) {
  const Request a = greedy(prompt_of(300, 1), 2), b = greedy(prompt_of(300, 2), 2), c = greedy(prompt_of(300, 3), 2);
  talk({a});
  const uint64_t one = bytes();
  StateStore store(folder, 2 * one + one / 2);
  talk(store, {b});
  EXPECT_EQ(talk(store, {a})[0].restored_tokens, 256u);
  talk(store, {c});
  EXPECT_LE(bytes(), 2 * one + one / 2);
  EXPECT_EQ(talk(store, {a})[0].restored_tokens, 256u);
  EXPECT_EQ(talk(store, {b})[0].restored_tokens, 0u) << "it was used longest ago";
  EXPECT_THAT(store.take_notes(), IsEmpty());
}

TEST_F(StateStoreTest, EarlierFilesOfAChainOutliveLaterOnes) {
  std::vector<int32_t> prompt = prompt_of(600, 1);
  Request request = greedy(prompt, 2);
  request.message_ends = {128, 256, 384};
  talk({request});
  ASSERT_THAT(files(), SizeIs(4));
  const uint64_t all = bytes();
  for (uint64_t limit = all - 1; limit > all / 8; limit -= all / 8) {
    StateStore store(folder, limit);
    talk(store, {greedy(prompt_of(70, 9), 2)});  // keeps one more, so that others must go
    talk(store, {request});
    EXPECT_THAT(store.take_notes(), testing::Not(testing::Contains(HasSubstr("damaged"))));
    EXPECT_LE(bytes(), limit);
  }
}

TEST_F(StateStoreTest, AStateLargerThanTheLimitIsSaidOnce) {
  StateStore store(folder, 2000);
  talk(store, {greedy(prompt_of(300, 1), 2), greedy(prompt_of(300, 2), 2)});
  const std::vector<std::string> said = store.take_notes();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], HasSubstr(" is not kept: want at most 2.0 kB (--state-dir-size)"));
  EXPECT_THAT(files(""), IsEmpty());
}

TEST_F(StateStoreTest, AFolderThatCannotBeMadeIsOneSentence) {
  std::filesystem::create_directories(folder);
  put_file(folder + "/file", {});
  StateStore store(folder + "/file/states", kRoom);
  talk(store, {greedy(prompt_of(300, 1), 2), greedy(prompt_of(300, 2), 2)});
  const std::vector<std::string> said = store.take_notes();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], HasSubstr(" (no states are kept)"));
}

// The limit on a file's size stands in for a full disk.
TEST_F(StateStoreTest, AFullDiskIsOneSentenceAndTheAnswerGoesOn) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1024, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  talk({greedy(prompt_of(300, 1), 2), greedy(prompt_of(300, 2), 2)});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_THAT(notes[0], HasSubstr(" (no more states are kept)"));
  EXPECT_THAT(files(""), IsEmpty());
}

TEST_F(StateStoreTest, FilesThatGoMeanwhileAreNoErrors) {
  Request request = greedy(prompt_of(600, 1), 2);
  request.message_ends = {128, 256, 384};
  for (size_t gone = 0; gone < 4; ++gone) {
    talk({request});
    ASSERT_THAT(files(), SizeIs(4));
    std::filesystem::remove(files()[gone]);
    talk({request});
    EXPECT_THAT(notes, IsEmpty());
    EXPECT_EQ(talk({request})[0].restored_tokens, 576u) << "kept again";
    std::filesystem::remove_all(folder);
  }
}

// As two processes do: each with a store of its own over the same folder, too small for both.
TEST_F(StateStoreTest, TwoAtATimeShareAFolder) {
  talk({greedy(prompt_of(500, 0), 2)});
  const uint64_t limit = 4 * bytes();
  std::vector<std::vector<std::string>> said(2);
  const auto work = [&](size_t which) {
    StateStore store(folder, limit);
    for (int32_t round = 0; round < 12; ++round)
      talk(store, {greedy(prompt_of(300 + static_cast<size_t>(round) * 10, round % 4), 3)});
    said[which] = store.take_notes();
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_THAT(said[0], IsEmpty());
  EXPECT_THAT(said[1], IsEmpty());
  EXPECT_LE(bytes(), limit);
}

TEST_F(StateStoreTest, InterruptedAndUndonePromptsLeaveOtherStatesRight) {
  StateStore store(folder, kRoom);
  FakeEngine fake(options(store));
  Session session(*fake.engine);
  ASSERT_TRUE(session.run(greedy(prompt_of(700, 1), 5), {},
                          [](const Progress& progress) { return progress.computed_prompt_tokens < 300; }));
  ASSERT_TRUE(session.truncate(100));
  const Request more = greedy(prompt_of(200, 2), 5);
  ASSERT_TRUE(session.run(more));
  std::vector<int32_t> whole = prompt_of(700, 1);
  whole.resize(100);
  whole.insert(whole.end(), more.prompt.begin(), more.prompt.end());
  EXPECT_EQ(talk({greedy(whole, 5)})[0].restored_tokens, 256u);
  talk({greedy(prompt_of(700, 1), 5)});
}

// The real thing for each kind of state: bits, and rows that are counted.
class RestartTest : public testing::TestWithParam<const char*> {
 protected:
  const std::string folder = cat(testing::TempDir(), ::getpid(), "_restart_test");
};

TEST_P(RestartTest, GivesTheSameBitsFromFewRows) {
  Request request;
  for (uint32_t i = 0; i < 1000; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * i + 7 * i) % real_model(GetParam()).facts().vocabulary));
  request.max_tokens = 40;
  request.message_ends = {333};
  request.logits_at = {970, 999};
  request.keep_sequence = true;
  std::vector<Progress> runs;
  for (int run = 0; run < 2; ++run) {
    StateStore store(folder, kRoom);
    EngineOptions options;
    options.context = 2048;
    options.states = &store;
    RealEngine engine(GetParam(), "cpu", options);
    runs.push_back(engine.answer(request));
    engine.engine->keep_state(runs.back().sequence);
    EXPECT_THAT(store.take_notes(), IsEmpty());
    EXPECT_EQ(engine.engine->stats().prompt_rows, run == 0 ? 1000u : 40u);
  }
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(same_bits(runs[0], runs[1]));
  EXPECT_EQ(runs[1].restored_tokens, 960u);
}

INSTANTIATE_TEST_SUITE_P(Families, RestartTest, testing::ValuesIn(kEveryStateKind), real_model_name);

}  // namespace
}  // namespace sluice

#include "engine/state/save.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/engine/engine_run.h"
#include "tests/engine/state/saved_bytes.h"

namespace sluice {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

class MemorySink : public ByteSink {
 public:
  Status write(std::span<const std::byte> bytes) override {
    if (bytes_.size() + bytes.size() > limit) return error(ErrorKind::io, "x.state: cannot write: the disk is full");
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  size_t limit = SIZE_MAX;

 private:
  std::vector<std::byte> bytes_;
};

SavedSequence example() {
  SavedSequence saved{
      .digest = "d1", .numerics_id = "n1", .cached = 64, .groups = {{4, 0, 2}, {4, 0, 1}}, .history = {}};
  for (int32_t i = 0; i < 70; ++i) saved.history.push_back({i, i < 66 ? TokenClass::prompt : TokenClass::decode});
  return saved;
}

std::vector<std::byte> written(const SavedSequence& saved) {
  MemorySink sink;
  SaveWriter writer(sink);
  CHECK(writer.begin(saved));
  CHECK(writer.write(bytes_of("12345678")));
  CHECK(writer.write(bytes_of("abcd")));
  CHECK(writer.finish());
  return sink.bytes();
}

// All pages of a group, or the error.
Result<std::string> read_group(const SaveReader& reader, uint32_t group) {
  std::string text;
  std::vector<std::byte> buffer(4);
  const std::array pieces{std::span(buffer).first(1), std::span(buffer).subspan(1)};
  for (SaveReader::GroupReading at{.group = group}; at.next < reader.saved().groups[group].count;) {
    TRY_STATUS(reader.read_page(at, pieces));
    for (const std::byte one : buffer) text += static_cast<char>(one);
  }
  return text;
}

std::string problem(const std::vector<std::byte>& bytes) {
  const MemorySource source("x.state", bytes);
  const Result<SaveReader> reader = SaveReader::open(source, "x.state");
  if (!reader) return reader.error().text;
  for (uint32_t g = 0; g < 2; ++g) {
    const Result<std::string> pages = read_group(*reader, g);
    if (!pages) return pages.error().text;
  }
  return "";
}

// Changes a number of the header and makes the checksums right again.
template <class T>
std::vector<std::byte> with(size_t offset, T value) {
  std::vector<std::byte> bytes = written(example());
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return with_checksums(bytes);
}

TEST(Save, ReadsWhatItWrote) {
  const std::vector<std::byte> bytes = written(example());
  EXPECT_EQ(bytes.size(), 48u + 4 + 2 * 16 + 70 * 5 + 12 + 3 * 16);
  EXPECT_EQ(bytes.size(), example().file_bytes());
  const MemorySource source("x.state", bytes);
  const Result<SaveReader> reader = SaveReader::open(source, "x.state");
  ASSERT_TRUE(reader) << reader.error().text;
  const SavedSequence want = example();
  EXPECT_EQ(reader->saved().digest, "d1");
  EXPECT_EQ(reader->saved().numerics_id, "n1");
  EXPECT_EQ(reader->saved().cached, 64u);
  EXPECT_EQ(reader->saved().groups, want.groups);
  EXPECT_EQ(reader->saved().history, want.history);
  EXPECT_EQ(*read_group(*reader, 0), "12345678");
  EXPECT_EQ(*read_group(*reader, 1), "abcd");
}

TEST(Save, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = written(example());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(problem({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size << " bytes";
  EXPECT_EQ(problem({bytes.begin(), bytes.begin() + 10}), "x.state: is 10 bytes: want at least 64");
  EXPECT_EQ(problem({bytes.begin(), bytes.begin() + 493}), "x.state: is 493 bytes: want 494 as its header says");
}

TEST(Save, AnOverlongFileIsRefused) {
  std::vector<std::byte> bytes = written(example());
  bytes.push_back(std::byte{0});
  EXPECT_EQ(problem(bytes), "x.state: is 495 bytes: want 494 as its header says");
}

TEST(Save, EveryChangedByteIsRefused) {
  const std::vector<std::byte> bytes = written(example());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> changed = bytes;
    changed[i] ^= std::byte{0x40};
    EXPECT_NE(problem(changed), "") << "byte " << i;
  }
  std::vector<std::byte> changed = bytes;
  changed[200] ^= std::byte{1};
  EXPECT_EQ(problem(changed), "x.state: its bytes do not have their checksum: the file is damaged");
}

TEST(Save, LyingHeadersAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_EQ(problem(with<uint64_t>(0, 0x4141414141414141)), "x.state: no saved sequence: want SLUICESQ");
  EXPECT_EQ(problem(with<uint32_t>(8, 1)), "x.state: is of version 1: want 3 or 4");
  EXPECT_EQ(problem(with<uint32_t>(12, 1u << 31)), "x.state: 2147483648 page groups: want at most 64");
  EXPECT_EQ(problem(with<uint64_t>(16, uint64_t{1} << 60)),
            "x.state: 64 of 1152921504606846976 tokens computed: want a multiple of 64");
  EXPECT_EQ(problem(with<uint64_t>(16, 0xffffffff)), "x.state: is 494 bytes: want 21474836619 as its header says");
  EXPECT_EQ(problem(with<uint64_t>(24, 65)), "x.state: 65 of 70 tokens computed: want a multiple of 64");
  EXPECT_EQ(problem(with<uint64_t>(24, 128)), "x.state: 128 of 70 tokens computed: want a multiple of 64");
  EXPECT_EQ(problem(with<uint64_t>(32, 128)), "x.state: begins at token 128 of 64: want a multiple of 64");
  EXPECT_EQ(problem(with<uint64_t>(32, 1)), "x.state: begins at token 1 of 64: want a multiple of 64");
  EXPECT_EQ(problem(with<uint32_t>(40, 5000)), "x.state: names of 5000 and 2 bytes: want at most 4096");
  EXPECT_EQ(problem(with<uint32_t>(44, 4000)), "x.state: is 494 bytes: want at least 4130");
  EXPECT_EQ(problem(with<uint64_t>(52 + 16, uint64_t{1} << 63)),
            "x.state: is 494 bytes: want 9223372036854776298 as its header says");
  EXPECT_EQ(problem(with<uint64_t>(60 + 8, ~uint64_t{0})), "x.state: is 494 bytes: want a header that makes sense");
  EXPECT_EQ(problem(with<uint8_t>(48 + 4 + 32 + 70 * 4 + 3, 2)), "x.state: token 3 has class 2: want 0 to 1");
}

TEST(Save, AFullDiskIsOneSentenceWhereverItStrikes) {
  for (size_t limit = 0; limit < 494; limit += 13) {
    MemorySink sink;
    sink.limit = limit;
    SaveWriter writer(sink);
    Status status = writer.begin(example());
    if (status) status = writer.write(bytes_of("12345678"));
    if (status) status = writer.write(bytes_of("abcd"));
    if (status) status = writer.finish();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().text, "x.state: cannot write: the disk is full");
  }
}

class SavedFile : public testing::Test {
 protected:
  void TearDown() override { std::remove(path.c_str()); }

  // A kept sequence of `tokens` and an answer.
  SequenceId kept(FakeEngine& fake, size_t tokens, uint32_t answer) {
    Request request = greedy(prompt_of(tokens, 1), answer);
    request.keep_sequence = true;
    history.clear();
    oracle_answer(history, request);
    return fake.answer(request).sequence;
  }
  void expect_goes_on(FakeEngine& fake, SequenceId sequence, uint32_t reused) {
    Request more = greedy(prompt_of(30, 5), 10);
    more.sequence = sequence;
    const std::vector<int32_t> want = oracle_answer(history, more);
    const Progress progress = fake.answer(more);
    EXPECT_EQ(tokens_of(progress), want);
    EXPECT_EQ(progress.reused_tokens, reused);
  }

  const std::string path = testing::TempDir() + "engine_save_test.state";
  History history;
  std::string note;
};

EngineOptions options() {
  EngineOptions options;
  options.prompt_chunk = 128;
  return options;
}

TEST_F(SavedFile, GoesOnAsIfItHadNeverBeenSaved) {
  for (const size_t tokens : {5u, 64u, 150u, 400u}) {
    FakeEngine before(options());
    const SequenceId sequence = kept(before, tokens, 50);
    ASSERT_TRUE(before.engine->save(sequence, path));
    FakeEngine after(options());
    const Result<SequenceId> loaded = after.engine->load(path, &note);
    ASSERT_TRUE(loaded) << loaded.error().text;
    EXPECT_EQ(note, "");
    EXPECT_EQ(*after.engine->history(*loaded), history);
    expect_goes_on(after, *loaded, cut_below(tokens + 49));
    EXPECT_EQ(after.held_pages(), 0u);
  }
}

TEST_F(SavedFile, OtherNumericsAreSaidAndTheTokensRunAgain) {
  FakeEngine before(options());
  ASSERT_TRUE(before.engine->save(kept(before, 150, 50), path));
  fake::Script script;
  script.numerics = "fake/2";
  FakeEngine after(options(), script);
  const Result<SequenceId> loaded = after.engine->load(path, &note);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(note, cat(path, ": was computed by fake/1 and this is fake/2: its tokens are run again"));
  expect_goes_on(after, *loaded, 0);
}

// Found by fuzzing: the note is one line whatever the file calls its numerics.
TEST_F(SavedFile, ANumericsIdOfSeveralLinesIsShownInOne) {
  fake::Script script;
  script.numerics = "fake\n\x1b[2J";
  FakeEngine before(options(), script);
  ASSERT_TRUE(before.engine->save(kept(before, 70, 2), path));
  FakeEngine after(options());
  ASSERT_TRUE(after.engine->load(path, &note));
  EXPECT_EQ(note.find_first_of("\n\x1b"), std::string::npos) << note;
  EXPECT_NE(note.find(": its tokens are run again"), std::string::npos) << note;
}

TEST_F(SavedFile, WithoutRoomForItsPagesTheTokensRunAgain) {
  FakeEngine before(options());
  ASSERT_TRUE(before.engine->save(kept(before, 150, 50), path));
  EngineOptions tight = options();
  tight.context = 256;
  tight.cache_positions = 256;
  FakeEngine after(tight);
  const RequestId running = after.submit(greedy(prompt_of(200, 3), 1));
  after.engine->step();
  const Result<SequenceId> loaded = after.engine->load(path, &note);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(note, cat(path, ": there is no room for its pages now: its tokens are run again"));
  after.run();
  after.collect(running);
  expect_goes_on(after, *loaded, 0);
}

TEST_F(SavedFile, AnotherModelOrASmallContextIsRefused) {
  FakeEngine before(options());
  ASSERT_TRUE(before.engine->save(kept(before, 150, 50), path));
  fake::Script script;
  const std::unique_ptr<Device> device = fake::make_device(script);
  Budget budget;
  TextModel other = fake::model();
  other.digest = [] { return std::string("another model"); };
  const auto engine = create_engine(std::move(other), *device, budget, options());
  EXPECT_EQ((*engine)->load(path, &note).error().text, cat(path, ": was saved with another model"));
  // Of as many digits, all but the last alike.
  TextModel alike = fake::model();
  const std::string digest = fake::model().digest();
  alike.digest = [&] { return digest.substr(0, digest.size() - 1) + '?'; };
  const auto close = create_engine(std::move(alike), *device, budget, options());
  EXPECT_EQ((*close)->load(path, &note).error().text, cat(path, ": was saved with another model"));
  EngineOptions small = options();
  small.context = 128;
  FakeEngine after(small);
  EXPECT_EQ(after.engine->load(path, &note).error().text,
            cat(path, ": has 200 tokens: want at most the context of 128"));
  EXPECT_FALSE(after.engine->load(path + ".missing", &note));
}

TEST_F(SavedFile, TokensAndPagesThatTheModelDoesNotHaveAreRefused) {
  FakeEngine fake(options());
  const auto load = [&](const SavedSequence& saved) {
    AtomicFile file = *AtomicFile::create(path);
    SaveWriter writer(file);
    CHECK(writer.begin(saved) && writer.finish() && file.commit());
    return fake.engine->load(path, &note).error().text;
  };
  SavedSequence saved{
      .digest = "fake model", .numerics_id = "fake/1", .cached = 0, .groups = {}, .history = {{50, {}}}};
  saved.groups = {{fake::kPageBytes, 0, 0}, {fake::kPageBytes, 0, 0}};
  EXPECT_EQ(load(saved), cat(path, ": token 0 is 50: want 0 to 49"));
  saved.history = {{5, {}}};
  saved.groups = {{0, 0, 4000000000}, {fake::kPageBytes, 0, 0}};
  EXPECT_EQ(load(saved), cat(path, ": its pages are not those of 0 positions of this model"));
  saved.groups.pop_back();
  EXPECT_EQ(load(saved), cat(path, ": its pages are not those of 0 positions of this model"));
  EXPECT_EQ(fake.held_pages(), 0u);
}

// The limit on a file's size stands in for a full disk.
TEST_F(SavedFile, AFailingDiskLeavesNoFileAndTheEngineGoesOn) {
  FakeEngine fake(options());
  const SequenceId sequence = kept(fake, 150, 50);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1024, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status saved = fake.engine->save(sequence, path);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().text.rfind(path + ": cannot write: ", 0), 0u) << saved.error().text;
  EXPECT_EQ(path_kind(path), PathKind::missing);
  expect_goes_on(fake, sequence, 199);
}

TEST_F(SavedFile, ADeviceThatCannotReadPagesFailsTheSave) {
  fake::Script script;
  script.fail_read = 1;
  FakeEngine fake(options(), script);
  const Status saved = fake.engine->save(kept(fake, 150, 50), path);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().text, "fake: cannot read");
  EXPECT_EQ(path_kind(path), PathKind::missing);
}

TEST_F(SavedFile, SavingDoesNotDisturbAStepUnderWay) {
  fake::Script slow;
  slow.polls_until_done = 3;
  FakeEngine fake(options(), slow);
  const SequenceId sequence = kept(fake, 150, 50);
  const Request other = greedy(prompt_of(100, 3), 5);
  const RequestId id = fake.submit(other);
  ASSERT_EQ(fake.engine->step(), StepState::in_flight);
  ASSERT_TRUE(fake.engine->save(sequence, path));
  fake.run();
  History alone;
  EXPECT_EQ(tokens_of(fake.collect(id)), oracle_answer(alone, other));
}

std::string text_of(const std::string& path) { return *read_file(path, 1 << 24); }

TEST_F(SavedFile, SavingWithoutWaitingGivesTheSequenceOfTheFirstCall) {
  fake::Script slow;
  slow.polls_until_done = 3;
  slow.slots = true;
  FakeEngine fake(options(), slow);
  const SequenceId sequence = kept(fake, 150, 50), another = *fake.engine->fork(sequence);
  ASSERT_TRUE(fake.engine->save(sequence, path));
  const std::string waited = text_of(path);
  std::remove(path.c_str());

  Result<bool> saved = fake.engine->save_without_waiting(sequence, path);
  ASSERT_TRUE(saved) << saved.error().text;
  EXPECT_FALSE(*saved);
  EXPECT_EQ(fake.engine->save_without_waiting(another, path).error().text,
            cat("sequence ", another, ": cannot be saved while sequence ", sequence, " is: want that to end first"));
  ASSERT_TRUE(fake.engine->truncate(sequence, 70));
  Request more = greedy(prompt_of(100, 3), 5);
  more.sequence = sequence;
  const RequestId id = fake.submit(more);
  while (saved && !*saved) {
    EXPECT_EQ(path_kind(path), PathKind::missing);
    fake.engine->step();
    saved = fake.engine->save_without_waiting(sequence, path);
  }
  ASSERT_TRUE(saved) << saved.error().text;
  EXPECT_EQ(text_of(path), waited);
  fake.run();
  EXPECT_EQ(fake.collect(id).finish, Finish::length);
}

TEST_F(SavedFile, ADeviceThatCannotReadPagesFailsASaveWithoutWaiting) {
  fake::Script script;
  script.fail_read = 1;
  FakeEngine fake(options(), script);
  const SequenceId sequence = kept(fake, 150, 50);
  const Result<bool> saved = fake.engine->save_without_waiting(sequence, path);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().text, "fake: cannot read");
  EXPECT_EQ(path_kind(path), PathKind::missing);
  const Result<bool> again = fake.engine->save_without_waiting(sequence, path);
  EXPECT_TRUE(again && *again);
  expect_goes_on(fake, sequence, 199);
}

}  // namespace
}  // namespace sluice

#include "base/files/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A directory of its own for each test, removed at its end.
class File : public ::testing::Test {
 protected:
  File() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = cat(::testing::TempDir(), "sluice_file_", ::getpid(), "_", test->name());
    std::filesystem::create_directories(folder_);
  }
  ~File() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return join_path(folder_, name); }
  std::vector<std::string> names() const { return *list_directory(folder_); }

  std::string folder_;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(File, ReadsBackWhatWasWritten) {
  ASSERT_TRUE(write_file(path("a"), "some bytes").ok());
  EXPECT_EQ(*read_file(path("a"), 100), "some bytes");
  EXPECT_EQ(text_of(Mapping::open(path("a"))->bytes()), "some bytes");
  const auto source = FileSource::open(path("a"));
  char part[4];
  ASSERT_TRUE((*source)->read_at(5, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(std::string(part, 4), "byte");
}

TEST_F(File, ReleasedPagesAreReadAgain) {
  const std::string text(20'000, 'x');
  ASSERT_TRUE(write_file(path("a"), text).ok());
  const Mapping mapping = *Mapping::open(path("a"));
  give_back_mapped(mapping.bytes().subspan(100, 15'000));
  EXPECT_EQ(text_of(mapping.bytes()), text);
  const std::vector<std::byte> elsewhere(20'000, std::byte{'y'});  // would be zeros
  give_back_mapped(elsewhere);
  EXPECT_EQ(text_of(elsewhere), std::string(20'000, 'y'));
  give_back_mapped({});
}

TEST_F(File, AnEmptyFileMapsToNoBytes) {
  ASSERT_TRUE(write_file(path("empty"), "").ok());
  EXPECT_TRUE(Mapping::open(path("empty"))->bytes().empty());
  EXPECT_EQ(*read_file(path("empty"), 0), "");
}

TEST_F(File, AMappingMovesAndMayReplaceAnother) {
  ASSERT_TRUE(write_file(path("a"), "aa").ok());
  ASSERT_TRUE(write_file(path("b"), "bb").ok());
  Mapping first = *Mapping::open(path("a"));
  Mapping second(std::move(first));
  second = *Mapping::open(path("b"));
  EXPECT_EQ(text_of(second.bytes()), "bb");
}

TEST_F(File, AMappingNoticesWritesToItsFile) {
  ASSERT_TRUE(write_file(path("a"), "12345").ok());
  const Mapping mapping = *Mapping::open(path("a"));
  EXPECT_TRUE(mapping.check_unchanged().ok());
  const std::string changed = cat(path("a"), ": was changed while it was read: want a file that nothing writes to");
  std::filesystem::resize_file(path("a"), 3);
  EXPECT_EQ(mapping.check_unchanged().error().text, changed);
  std::filesystem::resize_file(path("a"), 5);
  std::filesystem::last_write_time(path("a"), std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(mapping.check_unchanged().error().text, changed);
}

TEST_F(File, AMappedFileThatIsReplacedOrRemovedIsStillWhole) {
  ASSERT_TRUE(write_file(path("a"), "12345").ok());
  const Mapping mapping = *Mapping::open(path("a"));
  ASSERT_TRUE(write_file(path("a"), "another").ok());
  EXPECT_TRUE(mapping.check_unchanged().ok());
  std::filesystem::remove(path("a"));
  EXPECT_TRUE(mapping.check_unchanged().ok());
  EXPECT_EQ(text_of(mapping.bytes()), "12345");
}

TEST_F(File, OnlyAFileThatIsNotNewHasAVersion) {
  const std::string old = SLUICE_TEST_DATA "/gemma4/tokenizer.json", other = SLUICE_TEST_DATA "/gemma4/golden.json";
  const std::string version = Mapping::open(old)->version();
  EXPECT_FALSE(version.empty());
  EXPECT_EQ(Mapping::open(old)->version(), version);
  EXPECT_NE(Mapping::open(other)->version(), version);
  ASSERT_TRUE(write_file(path("a"), "new").ok());
  EXPECT_EQ(Mapping::open(path("a"))->version(), "");
  std::filesystem::last_write_time(path("a"), std::filesystem::last_write_time(old));
  EXPECT_EQ(Mapping::open(path("a"))->version(), "") << "a time that was set says nothing";
}

TEST_F(File, AnAddressInAMappingGivesItsFile) {
  ASSERT_TRUE(write_file(path("a"), "aa").ok());
  ASSERT_TRUE(write_file(path("b"), "bb").ok());
  const std::byte* gone = nullptr;
  {
    const Mapping first = *Mapping::open(path("a"));
    Mapping second = *Mapping::open(path("b"));
    gone = second.bytes().data();
    EXPECT_EQ(mapped_file_at(first.bytes().data() + 1), path("a"));
    EXPECT_EQ(mapped_file_at(gone), path("b"));
    EXPECT_EQ(mapped_file_at(gone + 2), nullptr);
    second = *Mapping::open(path("a"));
    EXPECT_EQ(mapped_file_at(second.bytes().data()), path("a"));
  }
  EXPECT_EQ(mapped_file_at(gone), nullptr);
  EXPECT_EQ(mapped_file_at(&gone), nullptr);
}

TEST_F(File, ReadingPastTheEndIsOneSentence) {
  ASSERT_TRUE(write_file(path("a"), "12345").ok());
  std::byte into[4];
  EXPECT_EQ((*FileSource::open(path("a")))->read_at(3, into).error().text,
            cat(path("a"), ": ends at byte 5: want 2 bytes more"));
  EXPECT_EQ(MemorySource("m", bytes_of("12345")).read_at(3, into).error().text, "m: ends at byte 5: want 4 bytes at 3");
  EXPECT_FALSE(MemorySource("m", bytes_of("12345")).read_at(UINT64_MAX, into).ok());
  EXPECT_TRUE(MemorySource("m", bytes_of("12345")).read_at(1, into).ok());
}

TEST_F(File, MissingFilesAndDirectoriesAreNamed) {
  const std::string none = path("none");
  EXPECT_EQ(read_file(none, 10).error().text, cat(none, ": cannot open: no such file or directory"));
  EXPECT_EQ(read_file(none, 10).error().kind, ErrorKind::not_found);
  EXPECT_EQ(Mapping::open(none).error().text, cat(none, ": cannot open: no such file or directory"));
  EXPECT_EQ(list_directory(none).error().text, cat(none, ": cannot open: no such file or directory"));
  EXPECT_EQ(read_file(folder_, 10).error().text, cat(folder_, ": not a file: want a regular file"));
  EXPECT_EQ(Mapping::open(folder_).error().text, cat(folder_, ": not a file: want a regular file"));
}

// Opening a pipe for reading waits for a writer, which may never come.
TEST_F(File, APipeIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(path("pipe"), 10).error().text, path("pipe") + ": not a file: want a regular file");
  EXPECT_EQ(Mapping::open(path("pipe")).error().text, path("pipe") + ": not a file: want a regular file");
}

TEST_F(File, AFileBeyondTheLimitIsNotRead) {
  ASSERT_TRUE(write_file(path("a"), "12345").ok());
  EXPECT_EQ(read_file(path("a"), 4).error().text, cat(path("a"), ": 5 bytes: want at most 4 bytes"));
}

TEST_F(File, KindsAndNamesOfPaths) {
  ASSERT_TRUE(write_file(path("b"), "x").ok());
  ASSERT_TRUE(write_file(path("a"), "x").ok());
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  EXPECT_EQ(path_kind(path("a")), PathKind::file);
  EXPECT_EQ(path_kind(folder_), PathKind::directory);
  EXPECT_EQ(path_kind(path("c")), PathKind::missing);
  EXPECT_EQ(path_kind("/dev/null"), PathKind::other);
  EXPECT_EQ(join_path("x", "y"), "x/y");
  EXPECT_EQ(join_path("x/", "y"), "x/y");
  EXPECT_EQ(join_path("", "y"), "y");
  EXPECT_EQ(file_name("x/y.gguf"), "y.gguf");
  EXPECT_EQ(file_name("y.gguf"), "y.gguf");
}

TEST_F(File, AnAtomicFileAppearsOnlyWhenCommitted) {
  {
    AtomicFile file = *AtomicFile::create(path("a"));
    ASSERT_TRUE(file.write(bytes_of("new")).ok());
    EXPECT_EQ(path_kind(path("a")), PathKind::missing);
    EXPECT_EQ(names().size(), 1u);  // the part
    AtomicFile moved(std::move(file));
    ASSERT_TRUE(moved.commit().ok());
    EXPECT_THAT(names(), ElementsAre("a"));
  }
  EXPECT_EQ(*read_file(path("a"), 10), "new");
}

TEST_F(File, TheStartOfAnAtomicFileMayBeWrittenAgain) {
  AtomicFile file = *AtomicFile::create(path("a"));
  ASSERT_TRUE(file.write(bytes_of("????the")).ok());
  ASSERT_TRUE(file.write_start(bytes_of("this")).ok());
  ASSERT_TRUE(file.write(bytes_of(" rest")).ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(*read_file(path("a"), 100), "thisthe rest");
}

TEST_F(File, AnAtomicFileMayBePrivate) {
  ASSERT_TRUE(write_file(path("a"), "mine", FileAccess::owner_only).ok());
  EXPECT_EQ(std::filesystem::status(path("a")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(File, AnAbandonedAtomicFileLeavesTheOldOneAlone) {
  ASSERT_TRUE(write_file(path("a"), "old").ok());
  {
    AtomicFile file = *AtomicFile::create(path("a"));
    ASSERT_TRUE(file.write(bytes_of("half of the n")).ok());
  }
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(*read_file(path("a"), 10), "old");
}

TEST_F(File, TwoWritersOfOneNameDoNotCollide) {
  AtomicFile first = *AtomicFile::create(path("a"));
  AtomicFile second = *AtomicFile::create(path("a"));
  ASSERT_TRUE(first.write(bytes_of("first")).ok());
  ASSERT_TRUE(second.write(bytes_of("second")).ok());
  ASSERT_TRUE(second.commit().ok());
  ASSERT_TRUE(first.commit().ok());
  EXPECT_EQ(*read_file(path("a"), 10), "first");
}

TEST_F(File, AHandlerRemovesOnlyUnfinishedFiles) {
  AtomicFile first = *AtomicFile::create(path("a"));
  AtomicFile second = *AtomicFile::create(path("b"));
  AtomicFile moved(std::move(second));
  ASSERT_TRUE(first.commit().ok());
  EXPECT_EQ(names().size(), 2u);
  remove_unfinished_files();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_FALSE(moved.commit().ok());
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(File, WritingWhereNothingCanBeWrittenIsOneSentence) {
  const std::string lost = path("no/such/folder/a");
  EXPECT_EQ(write_file(lost, "x").error().text, cat(lost, ": cannot create: no such file or directory"));
  EXPECT_EQ(write_file(folder_, "x").error().text, cat(folder_, ": not a file: want the name of a regular file"));
  EXPECT_EQ(write_file("/dev/null", "x").error().text, "/dev/null: not a file: want the name of a regular file");
}

TEST_F(File, AWriteThatFailsLeavesNothingBehind) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file(path("a"), std::string(10000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text, cat(path("a"), ": cannot write: larger than files may be here"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST(SystemError, ExplainsTheNumber) {
  EXPECT_EQ(system_error("m.gguf", "write", ENOSPC).text, "m.gguf: cannot write: the disk is full");
  EXPECT_EQ(system_error("m.gguf", "write", EDQUOT).text, "m.gguf: cannot write: the disk is full");
  EXPECT_EQ(system_error("m.gguf", "open", EACCES).text, "m.gguf: cannot open: permission denied");
  EXPECT_EQ(system_error("m.gguf", "read", EIO).text, "m.gguf: cannot read: Input/output error");
  EXPECT_EQ(system_error("m.gguf", "read", EIO).kind, ErrorKind::io);
}

}  // namespace
}  // namespace sluice

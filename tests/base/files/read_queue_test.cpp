#include "base/files/read_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/files/file.h"

namespace sluice {
namespace {

constexpr size_t kBlocks = 300;  // more than any queue's depth
constexpr size_t kBytes = kBlocks * kReadAlignment + 123;

std::string content() {
  std::string text(kBytes, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 131 >> 7);
  return text;
}

struct Blocks {
  explicit Blocks(size_t count)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(kReadAlignment, count * kReadAlignment))), count_(count) {}
  std::span<std::byte> span() const { return {bytes.get(), count_ * kReadAlignment}; }
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> bytes;
  size_t count_;
};

class ReadQueueTest : public testing::TestWithParam<ReadMethod> {
 protected:
  void SetUp() override {
    path_ = cat(testing::TempDir(), ::getpid(), "_read_queue_test");
    ASSERT_TRUE(write_file(path_, content()));
    auto queue = open_read_queue({path_}, GetParam());
    if (!queue && GetParam() == ReadMethod::uring) GTEST_SKIP() << queue.error().text;
    ASSERT_TRUE(queue) << queue.error().text;
    queue_ = *std::move(queue);
  }
  void TearDown() override { std::remove(path_.c_str()); }
  std::vector<ReadEnd> all(size_t count) {
    std::vector<ReadEnd> ended;
    while (ended.size() < count) queue_->take_ended(ended, true);
    return ended;
  }

  std::string path_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_P(ReadQueueTest, ReadsAsManyAsItsDepth) {
  const std::string text = content();
  const size_t count = queue_->depth();
  ASSERT_LE(count, kBlocks);
  const Blocks memory(count);
  for (size_t i = 0; i < count; ++i)
    queue_->begin(
        {.id = i, .offset = i * kReadAlignment, .into = memory.span().subspan(i * kReadAlignment, kReadAlignment)});
  std::vector<bool> seen(count);
  for (const ReadEnd& end : all(count)) {
    EXPECT_EQ(end.bytes, static_cast<int64_t>(kReadAlignment));
    EXPECT_FALSE(seen[end.id]);
    seen[end.id] = true;
  }
  EXPECT_EQ(std::memcmp(memory.bytes.get(), text.data(), count * kReadAlignment), 0);
}

TEST_P(ReadQueueTest, StopsAtTheEndOfTheFile) {
  const std::string text = content();
  const Blocks memory(4);
  queue_->begin({.id = 7, .offset = (kBlocks - 1) * kReadAlignment, .into = memory.span()});
  std::vector<ReadEnd> ended = all(1);
  EXPECT_EQ(ended[0].id, 7u);
  EXPECT_EQ(ended[0].bytes, static_cast<int64_t>(kReadAlignment + 123));
  EXPECT_EQ(std::memcmp(memory.bytes.get(), text.data() + (kBlocks - 1) * kReadAlignment, kReadAlignment + 123), 0);
  ASSERT_EQ(::truncate(path_.c_str(), 5 * kReadAlignment), 0);
  queue_->begin({.id = 8, .offset = 50 * kReadAlignment, .into = memory.span()});
  EXPECT_EQ(all(1)[0].bytes, 0);
}

TEST_P(ReadQueueTest, DestructionWaitsForReads) {
  const Blocks memory(queue_->depth());
  for (size_t i = 0; i < queue_->depth(); ++i)
    queue_->begin({.id = i, .into = memory.span().subspan(i * kReadAlignment, kReadAlignment)});
  queue_.reset();
}

TEST_P(ReadQueueTest, AnEmptyQueueDoesNotWait) {
  std::vector<ReadEnd> ended;
  queue_->take_ended(ended, true);
  EXPECT_TRUE(ended.empty());
}

INSTANTIATE_TEST_SUITE_P(Methods, ReadQueueTest, testing::Values(ReadMethod::uring, ReadMethod::threads),
                         [](const auto& method) { return method.param == ReadMethod::uring ? "uring" : "threads"; });

TEST(ReadQueue, ReadsCachedFilesFromThePageCache) {
  const std::string path = cat(testing::TempDir(), ::getpid(), "_cached_read_queue_test");
  ASSERT_TRUE(write_file(path, content()));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::byte byte{};
  const iovec into{.iov_base = &byte, .iov_len = 1};
  const bool says = ::preadv2(file, &into, 1, 0, RWF_NOWAIT) == 1;
  ::close(file);
  const std::string description = (*open_read_queue({path}))->description();
  std::remove(path.c_str());
  if (!says) GTEST_SKIP() << "this file system does not say what lies in the page cache";
  EXPECT_EQ(description.substr(description.find(',')), ", through the page cache");
}

TEST(ReadQueue, AMissingFileIsNamed) {
  const auto queue = open_read_queue({"/nowhere/at/all"});
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().text, "/nowhere/at/all: cannot open: no such file or directory");
}

}  // namespace
}  // namespace sluice

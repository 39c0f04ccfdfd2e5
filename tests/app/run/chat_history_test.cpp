// The history of typed lines, kept between chats.
#include "app/run/chat_history.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/files/file.h"
#include "base/text.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

TEST(ChatHistory, KeepsLinesOfSeveralChats) {
  const TemporaryFolder folder;
  const std::string file = folder.path("state/sluice/history");
  EXPECT_TRUE(read_history(file).empty());
  for (const char* entry : {"one", "two\nlines \\n", "two\nlines \\n", "", "\xff"})
    EXPECT_TRUE(add_to_history(file, entry));
  EXPECT_EQ(read_history(file), (std::vector<std::string>{"one", "two\nlines \\n"}));
  const auto owner_only = std::filesystem::perms::owner_all;
  EXPECT_EQ(std::filesystem::status(folder.path("state/sluice")).permissions(), owner_only);
  std::string full;
  for (size_t i = 0; i < kHistoryEntries; ++i) full += cat("line ", i, '\n');
  ASSERT_TRUE(write_file(file, full));
  EXPECT_TRUE(add_to_history(file, "last"));
  EXPECT_EQ(read_history(file).size(), kHistoryEntries);
  EXPECT_EQ(read_history(file).front(), "line 1");
  EXPECT_EQ(read_history(file).back(), "last");
  ASSERT_TRUE(write_file(file, "\xff\n"));
  EXPECT_TRUE(read_history(file).empty());
}

TEST(ChatHistory, ChatsThatWriteAtOnceLoseNoLine) {
  constexpr int kChats = 4, kLines = 25;
  const TemporaryFolder folder;
  const std::string file = folder.path("state/sluice/history");
  std::vector<std::thread> chats;
  for (int chat = 0; chat < kChats; ++chat) {
    chats.emplace_back([&file, chat] {
      for (int line = 0; line < kLines; ++line) EXPECT_TRUE(add_to_history(file, cat("chat ", chat, " line ", line)));
    });
  }
  for (std::thread& chat : chats) chat.join();
  const std::vector<std::string> entries = read_history(file);
  EXPECT_EQ(entries.size(), size_t{kChats * kLines});
  for (int chat = 0; chat < kChats; ++chat) {
    std::vector<std::string> own;
    for (const std::string& entry : entries)
      if (starts_with(entry, cat("chat ", chat, " "))) own.push_back(entry);
    ASSERT_EQ(own.size(), size_t{kLines});
    for (int line = 0; line < kLines; ++line)
      EXPECT_EQ(own[static_cast<size_t>(line)], cat("chat ", chat, " line ", line));
  }
}

}  // namespace
}  // namespace sluice

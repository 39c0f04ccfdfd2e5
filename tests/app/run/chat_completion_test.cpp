#include "app/run/chat_completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CompletionWords words() {
  return {.commands = {"/save", "/stats", "/system", "/model"},
          .takes_file = [](const std::string& name) { return name == "/save"; },
          .takes_model = [](const std::string& name) { return name == "/model"; },
          .models = [] { return std::vector<std::string>{"demo", "gemma4:e2b", "gemma4:e4b"}; }};
}

TEST(ChatCompletion, CommandsAndModels) {
  EXPECT_THAT(complete("/s", words()).words, ElementsAre("/save", "/stats", "/system"));
  EXPECT_THAT(complete("/x", words()).words, IsEmpty());
  EXPECT_THAT(complete("/model gem", words()).words, ElementsAre("gemma4:e2b", "gemma4:e4b"));
  EXPECT_EQ(complete("/model gem", words()).begin, 7u);
  EXPECT_THAT(complete("/stats d", words()).words, IsEmpty());
  EXPECT_THAT(complete("What is", words()).words, IsEmpty());
}

TEST(ChatCompletion, FilesBehindACommandAndAnAt) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path("my notes.txt"), "x"));
  ASSERT_TRUE(write_file(folder.path(".hidden"), "x"));
  ASSERT_TRUE(make_folders(folder.path("more")));
  const std::string notes = folder.path("my notes.txt"), more = folder.path("more") + "/";
  EXPECT_THAT(complete("/save " + folder.path("m"), words()).words, ElementsAre(more, notes));
  EXPECT_THAT(complete("/save " + folder.path("my n"), words()).words, ElementsAre(notes));
  EXPECT_THAT(complete("Read @" + folder.path(""), words()).words, ElementsAre(more, notes));
  EXPECT_EQ(complete("Read @/x", words()).begin, 6u);
  EXPECT_THAT(complete("Read @" + folder.path(".h"), words()).words, ElementsAre(folder.path(".hidden")));
}

}  // namespace
}  // namespace sluice

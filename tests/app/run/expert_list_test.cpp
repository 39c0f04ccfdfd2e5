// The list of hot experts of the last run: kept, used for prefetching, and ignored if damaged.
#include "app/run/expert_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/text.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kMoe = std::string(SLUICE_TEST_DATA) + "/gemma4_moe";

TEST(ExpertList, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.path("state/sluice/experts/one");
  EXPECT_EQ(read_expert_list(path).error().kind, ErrorKind::not_found);
  const std::vector<HotExpert> hot = {{3, 255, 1ull << 40}, {0, 7, 2}, {3, 1, 0}};
  ASSERT_TRUE(write_expert_list(path, hot));
  EXPECT_EQ(*read_expert_list(path), hot);
  const auto owner_only = std::filesystem::perms::owner_all;
  EXPECT_EQ(std::filesystem::status(folder.path("state/sluice")).permissions(), owner_only);
  ASSERT_TRUE(write_expert_list(path, {}));
  EXPECT_TRUE(read_expert_list(path)->empty());
}

TEST(ExpertList, IsRefusedWhenAnythingOfItIsNotAsItWas) {
  const TemporaryFolder folder;
  const std::string path = folder.path("state/sluice/experts/one");
  const std::vector<HotExpert> hot = {{3, 255, 12}, {0, 7, 2}};
  ASSERT_TRUE(write_expert_list(path, hot));
  const std::string text = *read_file(path, 1 << 20);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    ASSERT_TRUE(write_file(path, damaged));
    EXPECT_EQ(read_expert_list(path).error().text, path + ": no list of experts, or a damaged one") << at;
    ASSERT_TRUE(write_file(path, text.substr(0, at)));
    EXPECT_FALSE(read_expert_list(path)) << at;
  }
}

TEST(ExpertList, NamesAreThoseOfTheModelsFiles) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path("a"), "12"));
  ASSERT_TRUE(write_file(folder.path("b"), "12"));
  const std::string a = *expert_list_path("/state", {folder.path("a")});
  EXPECT_THAT(a, testing::StartsWith("/state/experts/"));
  EXPECT_NE(*expert_list_path("/state", {folder.path("b")}), a);
  ASSERT_TRUE(write_file(folder.path("a"), "123"));
  EXPECT_NE(*expert_list_path("/state", {folder.path("a")}), a);
  EXPECT_FALSE(expert_list_path("/state", {folder.path("none")}));
}

// What a run leaves, the next one reads; the answer is the same.
TEST(ExpertList, WarmsTheNextRun) {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run",          kMoe, "a b",     "--raw",           "--greedy",
                                      "--max-tokens", "8",  "--stats", "--expert-memory", "200k"};
    words.insert(words.end(), more.begin(), more.end());
    ProgramResult result = run_sluice(words, {.state_home = folder.path()});
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  };
  const std::string lists = folder.path("sluice/experts"), hot = " as they were hot the last time";
  const ProgramResult without = run({"--no-expert-list"});
  EXPECT_EQ(path_kind(lists), PathKind::missing);
  const ProgramResult cold = run({});
  EXPECT_THAT(cold.err, Not(HasSubstr(hot)));
  ASSERT_EQ(list_directory(lists)->size(), 1u);
  const std::string path = join_path(lists, list_directory(lists)->front());
  EXPECT_FALSE(read_expert_list(path)->empty());
  const ProgramResult warm = run({});
  EXPECT_THAT(warm.err, HasSubstr(hot));
  EXPECT_THAT(run({"--no-expert-list"}).err, Not(HasSubstr(hot)));
  ASSERT_TRUE(write_file(path, "sluice experts 1\n0 0 1\n"));
  const ProgramResult damaged = run({});
  EXPECT_THAT(damaged.err, HasSubstr(cat("sluice: ", path, ": no list of experts, or a damaged one: not used\n")));
  EXPECT_THAT(damaged.err, Not(HasSubstr(hot)));
  EXPECT_TRUE(read_expert_list(path)) << "written anew";
  // Experts that the model has not are not looked for.
  ASSERT_TRUE(write_expert_list(path, std::vector<HotExpert>{{1000, 0, 9}, {0, 100'000, 9}, {0, 0, 9}}));
  EXPECT_THAT(run({}).err, HasSubstr(" 1" + hot));
  for (const ProgramResult* other : {&cold, &warm, &damaged}) EXPECT_EQ(other->out, without.out);
  // Where it cannot be kept, that is said, and no more.
  const ProgramResult nowhere =
      run_sluice({"run", kMoe, "a b", "--raw", "--greedy", "--max-tokens", "8", "--expert-memory", "200k"},
                 {.state_home = "/proc/none"});
  EXPECT_EQ(nowhere.status, 0);
  EXPECT_EQ(nowhere.out, without.out);
  EXPECT_THAT(nowhere.err, HasSubstr(" (which experts were used is not kept)\n"));
}

}  // namespace
}  // namespace sluice

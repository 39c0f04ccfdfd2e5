#include "app/open/contents_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

std::string digits(size_t count, size_t number) {
  const std::string text = cat(number);
  return std::string(count - text.size(), '0') + text;
}
std::string contents(size_t number) { return digits(32, number); }
std::string version(size_t number) { return digits(64, number); }

class ContentsFileTest : public testing::Test {
 protected:
  ContentsFile open() { return {path_, "model.gguf", console_}; }

  const TemporaryFolder folder_;
  Console console_;
  const std::string path_ = contents_path(folder_.path("state/sluice"));
};

TEST_F(ContentsFileTest, RemembersFromOneRunToTheNext) {
  EXPECT_EQ(open().find(version(1)), std::nullopt);
  open().keep(version(1), contents(1));
  open().keep(version(2), contents(2));
  open().keep(version(2), contents(3));
  EXPECT_EQ(open().find(version(1)), contents(1));
  EXPECT_EQ(open().find(version(2)), contents(3));
  EXPECT_EQ(open().find(version(3)), std::nullopt);
  EXPECT_EQ(std::filesystem::status(path_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ContentsFileTest, TheOldestGo) {
  std::string text = "sluice contents 1\n";
  for (size_t i = 0; i < kRememberedContents; ++i) text += cat(contents(i), ' ', version(i), '\n');
  open().keep(version(9999), contents(9999));  // makes the folder
  ASSERT_TRUE(write_file(path_, text).ok());
  open().keep(version(1000), contents(1000));
  EXPECT_EQ(open().find(version(0)), std::nullopt);
  EXPECT_EQ(open().find(version(1)), contents(1));
  EXPECT_EQ(open().find(version(1000)), contents(1000));
}

TEST_F(ContentsFileTest, ForeignLinesAreLeftAlone) {
  open().keep(version(1), contents(1));
  const std::string good = *read_file(path_, 1 << 20);
  for (const std::string& bad : {std::string("sluice contents 2\n") + good, std::string(), std::string("\0\n", 2),
                                 cat("sluice contents 1\n", contents(1), ' ', version(1).substr(1), '\n'),
                                 cat("sluice contents 1\n", contents(1), "  ", version(1), '\n'),
                                 cat("sluice contents 1\nX", contents(1).substr(1), ' ', version(1), '\n')}) {
    ASSERT_TRUE(write_file(path_, bad).ok());
    EXPECT_EQ(open().find(version(1)), std::nullopt) << bad;
    open().keep(version(1), contents(1));
    EXPECT_EQ(open().find(version(1)), contents(1)) << bad;
  }
}

TEST_F(ContentsFileTest, WithoutAFolderNothingIsRemembered) {
  EXPECT_EQ(contents_path(""), "");
  ContentsFile none("", "model.gguf", console_);
  none.keep(version(1), contents(1));
  EXPECT_EQ(none.find(version(1)), std::nullopt);
}

}  // namespace
}  // namespace sluice

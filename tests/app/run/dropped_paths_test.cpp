// Lines that are nothing but paths, as people type them and terminals paste them.
#include "app/run/dropped_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> dropped(const std::string& line) {
  static const std::set<std::string> files = {"a.jpg", "/home/u/my photo.jpg", "/home/u/it's.png", "b.wav", "100%.png"};
  return dropped_paths(line, [](const std::string& path) { return files.contains(path); });
}

TEST(DroppedPaths, MayBeTypedAsTheyAre) {
  EXPECT_THAT(dropped("a.jpg"), ElementsAre("a.jpg"));
  EXPECT_THAT(dropped("  /home/u/my photo.jpg "), ElementsAre("/home/u/my photo.jpg"));
  EXPECT_THAT(dropped("/home/u/it's.png"), ElementsAre("/home/u/it's.png"));
}

TEST(DroppedPaths, ComeQuotedAndEscaped) {
  EXPECT_THAT(dropped("'/home/u/my photo.jpg' "), ElementsAre("/home/u/my photo.jpg"));
  EXPECT_THAT(dropped("\"/home/u/my photo.jpg\""), ElementsAre("/home/u/my photo.jpg"));
  EXPECT_THAT(dropped("/home/u/my\\ photo.jpg"), ElementsAre("/home/u/my photo.jpg"));
  EXPECT_THAT(dropped("'/home/u/it'\\''s.png'"), ElementsAre("/home/u/it's.png"));
  EXPECT_THAT(dropped("a.jpg /home/u/my\\ photo.jpg 'b.wav'"), ElementsAre("a.jpg", "/home/u/my photo.jpg", "b.wav"));
}

TEST(DroppedPaths, ComeAsUrls) {
  EXPECT_THAT(dropped("file:///home/u/my%20photo.jpg"), ElementsAre("/home/u/my photo.jpg"));
  EXPECT_THAT(dropped("file://localhost/home/u/it%27s.png"), ElementsAre("/home/u/it's.png"));
  EXPECT_THAT(dropped("file://100%.png"), ElementsAre("100%.png"));
}

TEST(DroppedPaths, WithinALongerTextAreText) {
  for (const char* line :
       {"What is a.jpg?", "a.jpg and b.wav", "a.jpg none.jpg", "", "  ", "'a.jpg", "/help", "\\", "''"})
    EXPECT_THAT(dropped(line), IsEmpty()) << line;
  EXPECT_THAT(dropped("a.jpg" + std::string(20000, ' ') + "b.wav"), IsEmpty());
}

}  // namespace
}  // namespace sluice

// Pictures and sounds in prompts: where their rows stand, and what a template is given.
#include "chat/media_parts.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr int32_t kImageBegin = 17, kImage = 19, kImageEnd = 21, kAudio = 20;

PreparedMedia prepared(ProgramKind tower, uint32_t rows, uint8_t name, TowerTokens tokens) {
  auto inputs = std::make_shared<TowerInputs>();
  inputs->rows = rows;
  MediaDigest content{};
  content[0] = name;
  return {.input = {.content = content, .tower = tower, .inputs = std::move(inputs)}, .shape = {}, .tokens = tokens};
}
PreparedMedia picture(uint32_t rows, uint8_t name) {
  return prepared(ProgramKind::vision, rows, name, {.begin = kImageBegin, .row = kImage, .end = kImageEnd});
}
PreparedMedia sound(uint32_t rows, uint8_t name) {
  return prepared(ProgramKind::audio, rows, name, {.begin = -1, .row = kAudio, .end = -1});
}

TEST(MediaParts, GiveEveryPictureAsManyTokensAsItHasRows) {
  const PlacedMedia placed =
      unwrap(place_media({5, kImage, 6, kAudio, kImage, 7}, {picture(2, 1), sound(3, 2), picture(1, 3)}));
  EXPECT_EQ(placed.ids, (std::vector<int32_t>{5, kImageBegin, kImage, kImage, kImageEnd, 6, kAudio, kAudio, kAudio,
                                              kImageBegin, kImage, kImageEnd, 7}));
  ASSERT_EQ(placed.spans.size(), 3u);
  EXPECT_EQ(placed.spans[0].at, 2u);
  EXPECT_EQ(placed.spans[1].at, 6u);
  EXPECT_EQ(placed.spans[1].rows, 3u);
  EXPECT_EQ(placed.spans[2].at, 10u);
  EXPECT_EQ(placed.spans[2].content[0], 3);
}

TEST(MediaParts, GetTheTokensAroundThemOnce) {
  EXPECT_EQ(unwrap(place_media({kImageBegin, kImage, kImageEnd}, {picture(1, 1)})).ids,
            (std::vector<int32_t>{kImageBegin, kImage, kImageEnd}));
}

TEST(MediaParts, MustBeAsManyAsThePromptHasPlacesFor) {
  EXPECT_EQ(place_media({5, kImage, kImage}, {picture(2, 1)}).error().text,
            "the conversation has places for 2 pictures and sounds: want 1, one for each that is given");
  EXPECT_EQ(place_media({5, 6}, {picture(2, 1)}).error().text,
            "the conversation has places for 0 pictures and sounds: want 1, one for each that is given");
}

TEST(MediaParts, AreFoundInIdsThatHaveAllTokensAlready) {
  const std::vector<PreparedMedia> media = {picture(2, 1), picture(3, 2)};
  const std::vector<MediaSpan> spans = unwrap(find_media({1, kImage, kImage, 2, kImage, kImage, kImage}, media));
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1].at, 4u);
  EXPECT_EQ(find_media({kImage, 2, kImage}, media).error().text,
            "token 0: 1 places of a picture or sound: want its 2 rows");
}

TEST(MediaParts, StandWhereTheirMarkersDoAndElseBeforeTheText) {
  const auto parts = [](const std::string& text, const std::vector<PreparedMedia>& media) {
    std::string all;
    const Json list = content_parts(text, media);
    for (const Json& part : list.as_array()) {
      const std::string type = part.find("type")->as_string();
      all += type == "text" ? cat("[", part.find("text")->as_string(), "]") : cat("<", type, ">");
    }
    return all;
  };
  EXPECT_EQ(parts("Compare <image> with <audio>.", {picture(1, 1), sound(1, 2), picture(1, 3), sound(1, 4)}),
            "<image><audio>[Compare ]<image>[ with ]<audio>[.]");
  EXPECT_EQ(parts("<audio>a<image>", {picture(1, 1), sound(1, 2)}), "<audio>[a]<image>");
  EXPECT_EQ(parts("", {picture(1, 1)}), "<image>");
  EXPECT_EQ(parts("a <image> tag", {sound(1, 1)}), "<audio>[a <image> tag]");
}

}  // namespace
}  // namespace sluice

#include "media/resize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "media/sizes.h"
#include "tests/media/media_files.h"

namespace sluice {
namespace {

Picture size_of(const Picture& picture) { return {picture.width, picture.height, {}}; }

TEST(Resize, IsPillowsToTheBit) {
  const Json expected = expected_media();
  const Json::Array& resized = expected.find("resized")->as_array();
  const Picture source = picture_of(resized[0]);
  for (size_t i = 1; i < resized.size(); ++i) {
    const Picture want = picture_of(resized[i]);
    const Picture got = resize_bicubic(source, want.width, want.height);
    EXPECT_EQ(got.pixels, want.pixels) << want.width << " x " << want.height;
  }
}

// The other precision of weights may round a number the other way, in each of the two passes.
TEST(Resize, TorchRoundsAFewNumbersDifferently) {
  const Json expected = expected_media();
  const Json::Array& resized = expected.find("resized")->as_array();
  const Picture source = picture_of(resized[0]);
  for (size_t i = 1; i < resized.size(); ++i) {
    const Picture pillow = picture_of(resized[i]);
    const Picture got = resize_bicubic_torch(source, pillow.width, pillow.height);
    ASSERT_EQ(got.pixels.size(), pillow.pixels.size());
    for (size_t at = 0; at < got.pixels.size(); ++at)
      EXPECT_LE(std::abs(int{got.pixels[at]} - int{pillow.pixels[at]}), 2) << at;
  }
}

TEST(Resize, LeavesAPictureOfThatSizeAsItIs) {
  const Picture picture{2, 1, {1, 2, 3, 250, 251, 252}};
  EXPECT_EQ(resize_bicubic(picture, 2, 1).pixels, picture.pixels);
  EXPECT_EQ(resize_bicubic_torch(picture, 2, 1).pixels, picture.pixels);
}

TEST(Resize, SpreadsOnePixel) {
  const Picture got = resize_bicubic({1, 1, {9, 128, 255}}, 3, 2);
  EXPECT_EQ(size_of(got).width, 3u);
  EXPECT_EQ(got.pixels,
            (std::vector<uint8_t>{9, 128, 255, 9, 128, 255, 9, 128, 255, 9, 128, 255, 9, 128, 255, 9, 128, 255}));
}

// get_aspect_ratio_preserving_size of transformers 5.17.0, by hand.
TEST(Sizes, RowsFillTheArea) {
  EXPECT_EQ(size_for_rows({300, 200}, 48, 70), (PictureSize{480, 288}));
  EXPECT_EQ(size_for_rows({384, 384}, 48, 70), (PictureSize{384, 384}));
  EXPECT_EQ(size_for_rows({120, 260}, 48, 70), (PictureSize{240, 576}));
  EXPECT_EQ(size_for_rows({4000, 3000}, 48, 280), (PictureSize{912, 672}));
  EXPECT_EQ(size_for_rows({1, 1}, 48, 1), (PictureSize{48, 48}));
}

TEST(Sizes, NarrowPicturesKeepOneRow) {
  EXPECT_EQ(size_for_rows({5000, 50}, 48, 70), (PictureSize{3360, 48}));  // 100 blocks: more than 70
  EXPECT_EQ(size_for_rows({50, 5000}, 48, 70), (PictureSize{48, 3360}));
  EXPECT_EQ(size_for_rows({75, 1}, 48, 70), (PictureSize{3360, 48}));
  EXPECT_EQ(size_for_rows({720, 10}, 48, 71), (PictureSize{3408, 48}));
}

// smart_resize of transformers 5.17.0, by hand.
TEST(Sizes, PixelsStayWithinTheirRange) {
  const PixelRange range{1024, 1048576};
  EXPECT_EQ(unwrap(size_for_pixels({100, 70}, 32, range)), (PictureSize{96, 64}));
  EXPECT_EQ(unwrap(size_for_pixels({128, 96}, 32, range)), (PictureSize{128, 96}));
  EXPECT_EQ(unwrap(size_for_pixels({48, 80}, 32, range)), (PictureSize{64, 64}));  // 1.5 and 2.5 blocks: ties to even
  EXPECT_EQ(unwrap(size_for_pixels({4000, 3000}, 32, range)), (PictureSize{1152, 864}));
  EXPECT_EQ(unwrap(size_for_pixels({8, 8}, 32, range)), (PictureSize{32, 32}));
  EXPECT_EQ(unwrap(size_for_pixels({10, 20}, 32, {4096, 8192})), (PictureSize{64, 96}));
  EXPECT_EQ(unwrap(size_for_pixels({2000, 10}, 32, {1024, 4096})), (PictureSize{480, 32}));
}

TEST(Sizes, RefusesAStrip) {
  const auto size = size_for_pixels({2001, 10}, 32, {1024, 4096});
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().text, "picture is 2001 x 10: want no side longer than 200 times the other");
}

}  // namespace
}  // namespace sluice

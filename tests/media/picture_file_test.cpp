// Pictures of every kind against Pillow's pixels (tests/data/media/make_media.py), and files that hold no picture.
#include "media/decode/picture_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "media/decode/orientation.h"
#include "tests/media/media_files.h"

namespace sluice {
namespace {

std::string error_of(const std::vector<std::byte>& bytes, const PictureLimits& limits = {}) {
  const auto picture = decode_picture(bytes, "x", limits);
  return picture ? cat("a picture of ", picture->width, " x ", picture->height) : picture.error().text;
}

std::string error_of(std::string_view file, const PictureLimits& limits = {}) {
  return error_of(test_file(cat("media/", file)), limits);
}

TEST(PictureFile, EveryKindHasPillowsPixels) {
  const Json expected = expected_media();
  for (const auto& [name, json] : expected.find("pictures")->as_object()) {
    SCOPED_TRACE(name);
    const Picture want = picture_of(json);
    const auto got = decode_picture(test_file(cat("media/", name)), name);
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_EQ(got->width, want.width);
    EXPECT_EQ(got->height, want.height);
    EXPECT_EQ(got->pixels, want.pixels);
  }
}

// The numbers that make_media.py draws: their upper bytes.
TEST(PictureFile, GrayOfSixteenBitsKeepsItsUpperByte) {
  const Picture picture = unwrap(decode_picture(test_file("media/gray16.png"), "gray16.png"));
  ASSERT_EQ(picture.pixels.size(), 7u * 5 * 3);
  for (size_t y = 0; y < 5; ++y)
    for (size_t x = 0; x < 7; ++x)
      for (size_t channel = 0; channel < 3; ++channel)
        EXPECT_EQ(picture.pixels[(y * 7 + x) * 3 + channel], (x * 37 + y * 59 + x * y * 3) % 256);
}

// Every beginning of every file. Some kinds end with bytes that no pixel of the first frame needs.
TEST(PictureFile, IsRefusedOrWholeWhereverItEnds) {
  const Json expected = expected_media();
  for (const auto& [name, json] : expected.find("pictures")->as_object()) {
    const std::vector<std::byte> bytes = test_file(cat("media/", name));
    const Picture want = picture_of(json);
    size_t whole = 0;
    for (size_t size = 0; size < bytes.size(); ++size) {
      // Of its own, so that a sanitizer sees a read behind the end.
      const std::vector<std::byte> begin(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      const auto got = decode_picture(begin, name);
      if (got) {
        ++whole;
        EXPECT_EQ(got->pixels, want.pixels) << name << " of " << size << " bytes";
      } else {
        EXPECT_THAT(got.error().text, testing::StartsWith(cat(name, ": "))) << size;
      }
    }
    if (!name.starts_with("animated")) EXPECT_LT(whole, bytes.size() / 2) << name;
  }
}

TEST(PictureFile, SaysWhatItFound) {
  EXPECT_EQ(error_of(bytes_of("")), "x: empty file: want a PNG, JPEG, WebP, GIF or BMP picture");
  EXPECT_EQ(error_of(bytes_of("%PDF-1.7\n")),
            "x: begins with bytes 25 50 44 46 2d 31 2e 37: want a PNG, JPEG, WebP, GIF or BMP picture");
  EXPECT_EQ(error_of(bytes_of("RIFF\1\1\1\1WAVE")),
            "x: begins with bytes 52 49 46 46 01 01 01 01: want a PNG, JPEG, WebP, GIF or BMP picture");
  EXPECT_EQ(error_of(bytes_of("GIF")), "x: begins with bytes 47 49 46: want a PNG, JPEG, WebP, GIF or BMP picture");
}

TEST(PictureFile, SaysThatItEndsEarly) {
  const auto half = [](std::string_view file) {
    std::vector<std::byte> bytes = test_file(cat("media/", file));
    bytes.resize(bytes.size() / 2);
    return error_of(bytes);
  };
  EXPECT_EQ(half("rgb.png"), "x: ends early: want an undamaged PNG picture");
  EXPECT_EQ(half("plain.jpg"), "x: ends early: want an undamaged JPEG picture");
  EXPECT_EQ(half("lossless.webp"), "x: damaged or ends early: want an undamaged WebP picture");
  EXPECT_EQ(half("interlaced.gif"), "x: ends early: want an undamaged GIF picture");
  EXPECT_EQ(half("bits24.bmp"), "x: ends early: want an undamaged BMP picture");
}

TEST(PictureFile, SaysWhatIsDamaged) {
  std::vector<std::byte> png = test_file("media/rgb.png");
  png[50] ^= std::byte{1};
  EXPECT_EQ(error_of(png), "x: IDAT: incorrect data check: want an undamaged PNG picture");
  std::vector<std::byte> bmp = test_file("media/bits24.bmp");
  bmp[28] = std::byte{2};
  EXPECT_EQ(error_of(bmp), "x: BMP of bits 2: want 1, 4, 8, 16, 24 or 32");
  bmp = test_file("media/bits8.bmp");
  bmp[30] = std::byte{1};
  EXPECT_EQ(error_of(bmp), "x: BMP of compression 1: want 0, or 3 with 16 or 32 bits");
  bmp = test_file("media/bits24.bmp");
  bmp[21] = std::byte{0xff};
  EXPECT_EQ(error_of(bmp), "x: width -16777209: want an undamaged BMP picture");
}

TEST(PictureFile, HoldsToTheLimits) {
  for (const std::string_view file : {"rgb.png", "lossless.webp", "animated.webp", "plain.gif", "bits8.bmp"}) {
    EXPECT_EQ(error_of(file, {.side = 6}), "x: picture of 7 x 5 pixels: want sides of at most 6");
    EXPECT_EQ(error_of(file, {.pixels = 34}), "x: picture of 7 x 5 pixels: want at most 34 pixels");
    EXPECT_EQ(error_of(file, {.side = 7, .pixels = 35}), "a picture of 7 x 5");
  }
  EXPECT_EQ(error_of("exif1.jpg", {.pixels = 23}), "x: picture of 6 x 4 pixels: want at most 23 pixels");
  EXPECT_EQ(error_of("rgb.png", {.bytes = 100}), "x: 107 bytes: want at most 100");
}

TEST(PictureFile, AsksForRoomBeforeItDecodes) {
  for (const char* file : {"rgb.png", "lossless.webp", "animated.webp", "plain.gif", "bits8.bmp"}) {
    uint64_t asked = 0;
    const auto room = [&](uint64_t bytes) -> Status {
      asked = bytes;
      return error(ErrorKind::out_of_memory, "no room");
    };
    EXPECT_EQ(error_of(file, {.room = room}), "no room") << file;
    EXPECT_EQ(asked, 7u * 5 * kPictureDecodeBytes) << file;
  }
}

// Files of a few bytes that say they are huge cost no memory.
TEST(PictureFile, RefusesHugeSizesBeforeItAllocates) {
  std::vector<std::byte> bmp = test_file("media/bits24.bmp");
  for (const size_t at : {18, 19, 22, 23}) bmp[at] = std::byte{0xff};
  EXPECT_EQ(error_of(bmp), "x: picture of 65535 x 65535 pixels: want at most 67108864 pixels");
  std::vector<std::byte> gif = test_file("media/plain.gif");
  for (const size_t at : {6, 7, 8, 9}) gif[at] = std::byte{0xff};
  EXPECT_EQ(error_of(gif), "x: picture of 65535 x 65535 pixels: want at most 67108864 pixels");
  bmp = test_file("media/bits24.bmp");
  for (const size_t at : {18, 22}) bmp[at] = std::byte{0};
  EXPECT_EQ(error_of(bmp), "x: picture of 0 x 0 pixels: want at least one");
}

TEST(Orientation, IsOneWhereExifDoesNotSay) {
  const auto read = [](std::string_view text) { return read_orientation(std::as_bytes(std::span(text))); };
  using namespace std::string_view_literals;  // NOLINT(google-build-using-namespace)
  EXPECT_EQ(read("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"sv), 6u);
  EXPECT_EQ(read("Exif\0\0MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\3\0\0"sv), 3u);
  EXPECT_EQ(read(""sv), 1u);
  EXPECT_EQ(read("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\11\0\0\0"sv), 1u);  // no such orientation
  EXPECT_EQ(read("II*\0\10\0\0\0\1\0\x12\1\4\0\1\0\0\0\6\0\0\0"sv), 1u);   // not a number of 16 bits
  EXPECT_EQ(read("II*\0\377\377\377\377"sv), 1u);                          // a directory behind the end
  EXPECT_EQ(read("II*\0\10\0\0\0\377\377"sv), 1u);                         // entries behind the end
  EXPECT_EQ(read("JJ*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"sv), 1u);
}

}  // namespace
}  // namespace sluice

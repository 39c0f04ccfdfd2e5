// The curves of a training as TensorBoard's events, as a picture and as text. Milliseconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/train/event_file.h"
#include "app/train/plot.h"
#include "base/files/file.h"
#include "base/text.h"
#include "media/decode/picture_file.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

std::vector<MetricsPoint> points() {
  std::vector<MetricsPoint> all;
  for (uint64_t step = 1; step <= 9; ++step) {
    all.push_back({.step = step, .loss = 9.0 - static_cast<double>(step), .rate = 1e-3, .gradient_norm = 0.5});
    if (step % 4 == 0) all.push_back({.step = step, .held_out_loss = 6});
  }
  return all;
}

// 0xe3069283 is CRC-32C's check value (RFC 3720), 0xc78ab0e5 that value masked.
TEST(EventFile, ChecksumsAreMasked) { EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u); }

// The first 13 bytes are those of every file that TensorFlow writes.
TEST(EventFile, BeginsAsTensorFlowsDo) {
  const std::string begin = event_file_begin(0);
  EXPECT_EQ(begin.substr(0, 13), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09", 13));
  EXPECT_EQ(begin.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(begin.size(), 8 + 4 + 0x18 + 4u);
}

TEST(EventFile, ARecordHasStepAndScalars) {
  const std::string record = event_record(1.5, {.step = 300, .held_out_loss = 2});
  const std::string message = record.substr(12, record.size() - 16);
  EXPECT_EQ(message, std::string("\x09\0\0\0\0\0\0\xf8\x3f"              // wall_time 1.5
                                 "\x10\xac\x02"                          // step 300
                                 "\x2a\x16\x0a\x14"                      // a summary of one value
                                 "\x0a\x0dheld_out_loss\x15\0\0\0\x40",  // of 2
                                 9 + 3 + 4 + 20));
}

TEST(EventFile, PointsThatAreAddedLieBehindTheOthers) {
  const TemporaryFolder folder;
  const std::string path = folder.path("events");
  EventFile file = unwrap(EventFile::create(path, points()));
  const std::string before = unwrap(read_file(path, 1 << 20));
  unwrap(file.add({.step = 10, .loss = 1}));
  const std::string after = unwrap(read_file(path, 1 << 20));
  EXPECT_EQ(after.substr(0, before.size()), before);
  EXPECT_EQ(after.size() - before.size(), event_record(0, {.step = 10, .loss = 1}).size());
}

TEST(Plot, IsAPictureOfBothCurves) {
  const TemporaryFolder folder;
  const std::string path = folder.path("plot.png");
  unwrap(write_plot(path, points()));
  const std::string file = unwrap(read_file(path, 1 << 20));
  const Picture read = unwrap(decode_picture(std::as_bytes(std::span(file)), path));
  const Picture drawn = plot(points());
  EXPECT_EQ(read.pixels, drawn.pixels);
  const auto colour = [&](uint32_t x, uint32_t y) {
    const uint8_t* pixel = &drawn.pixels[(size_t{y} * drawn.width + x) * 3];
    return std::vector<int>(pixel, pixel + 3);
  };
  EXPECT_EQ(colour(60, 20), (std::vector<int>{31, 119, 180})) << "the first loss, the largest";
  EXPECT_EQ(colour(620, 360), (std::vector<int>{31, 119, 180})) << "the last one";
  EXPECT_EQ(colour(60 + 560 * 3 / 8, 360 - 340 * 6 / 8), (std::vector<int>{230, 110, 10})) << "held out";
  EXPECT_EQ(plot({}).pixels, std::vector<uint8_t>(drawn.pixels.size(), 255));
}

TEST(Plot, InTheTerminalIsALineOfMarks) {
  EXPECT_EQ(curve_text(points(), 26),
            "      8 |*\n"
            "        |  *\n"
            "        |    * o       o\n"
            "        |      *\n"
            "        |        * *\n"
            "        |            *\n"
            "        |              *\n"
            "      0 |                *\n");
  EXPECT_EQ(curve_text({}, 72), "");
  EXPECT_EQ(curve_text({{.step = 1, .loss = 1}}, 72), "");
}

}  // namespace
}  // namespace sluice

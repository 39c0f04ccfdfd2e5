// Pictures for terminals, read back as a terminal reads them.
#include "app/cli/inline_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstdlib>

#include "base/base64.h"
#include "base/text.h"
#include "media/decode/picture_file.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::Each;

// Every pixel another colour. Its size is no multiple of three bytes, six rows or a piece of base64.
Picture colourful(uint32_t width, uint32_t height) {
  Picture picture{.width = width, .height = height, .pixels = {}};
  for (uint32_t i = 0; i < width * height * 3; ++i)
    picture.pixels.push_back(static_cast<uint8_t>(i * 2654435761u >> 24));
  return picture;
}

std::string pixels_of(const Picture& picture) { return {picture.pixels.begin(), picture.pixels.end()}; }

TEST(InlinePicture, KittyGetsEveryPixelInPieces) {
  const Picture picture = colourful(67, 41);
  std::string text = kitty_picture(picture), data;
  size_t pieces = 0;
  bool more = true;
  while (!text.empty()) {
    ASSERT_TRUE(more);
    ASSERT_TRUE(text.starts_with("\x1b_G"));
    const size_t semicolon = text.find(';'), end = text.find("\x1b\\");
    const std::string keys = text.substr(3, semicolon - 3), piece = text.substr(semicolon + 1, end - semicolon - 1);
    EXPECT_LE(piece.size(), 4096u);
    EXPECT_EQ(keys.starts_with("a=T,q=2,f=24,s=67,v=41,m="), pieces == 0) << keys;
    more = keys.ends_with("m=1");
    data += piece;
    text.erase(0, end + 2);
    ++pieces;
  }
  EXPECT_FALSE(more);
  EXPECT_EQ(pieces, (67u * 41 * 4 + 4095) / 4096);
  EXPECT_EQ(decode_base64(data), pixels_of(picture));
}

TEST(InlinePicture, ITerm2GetsAPngFile) {
  const Picture picture = colourful(300, 101);  // two stored blocks
  const std::string text = iterm2_picture(picture);
  const size_t colon = text.find(':');
  const std::string file = decode_base64(std::string_view(text).substr(colon + 1, text.size() - colon - 2)).value();
  EXPECT_EQ(text.substr(0, colon), cat("\x1b]1337;File=inline=1;size=", file.size(), ";width=300px;height=101px"));
  EXPECT_EQ(text.back(), '\a');
  const Picture back = unwrap(decode_picture(std::as_bytes(std::span(file)), "back.png"));
  EXPECT_EQ(back.width, 300u);
  EXPECT_EQ(back.height, 101u);
  EXPECT_EQ(back.pixels, picture.pixels);
}

// Plays a Sixel picture on an empty one of the same size.
Picture play_sixel(const std::string& text, uint32_t width, uint32_t height) {
  Picture picture{.width = width, .height = height, .pixels = std::vector<uint8_t>(size_t{width} * height * 3)};
  std::vector<int> drawn(size_t{width} * height);
  const std::string begin = cat("\x1bP0;1q\"1;1;", width, ";", height);
  EXPECT_TRUE(text.starts_with(begin));
  std::vector<std::array<int, 3>> palette(256);
  const auto number = [&](size_t& at) {
    int value = 0;
    for (++at; at < text.size() && std::isdigit(text[at]) != 0; ++at) value = value * 10 + text[at] - '0';
    return value;
  };
  size_t x = 0, row = 0, repeat = 1;
  std::array<int, 3> colour{};
  for (size_t at = begin.size(); at < text.size() && text[at] != '\x1b';) {
    const char c = text[at];
    if (c == '#') {
      const auto index = static_cast<size_t>(number(at));
      if (text[at] == ';') {
        EXPECT_EQ(number(at), 2);  // RGB
        for (int& part : palette.at(index)) part = number(at);
      } else {
        colour = palette.at(index);
      }
    } else if (c == '!') {
      repeat = static_cast<size_t>(number(at));
    } else if (c == '$' || c == '-') {
      x = 0;
      row += c == '-' ? 6 : 0;
      ++at;
    } else {
      EXPECT_TRUE(c >= '?' && c <= '~') << c;
      for (; repeat > 0; --repeat, ++x) {
        for (size_t y = 0; y < 6; ++y) {
          if (((c - '?') >> y & 1) == 0) continue;
          const size_t pixel = (row + y) * width + x;
          ++drawn.at(pixel);
          for (size_t part = 0; part < 3; ++part)
            picture.pixels[pixel * 3 + part] = static_cast<uint8_t>(colour[part] * 255 / 100);
        }
      }
      repeat = 1;
      ++at;
    }
  }
  EXPECT_TRUE(text.ends_with("\x1b\\"));
  EXPECT_THAT(drawn, Each(1));
  return picture;
}

TEST(InlinePicture, SixelDrawsEveryPixelOnceInTheNearestColour) {
  for (const auto& [width, height] : {std::pair(67u, 41u), std::pair(1u, 1u), std::pair(300u, 12u)}) {
    const Picture picture = colourful(width, height);
    const Picture back = play_sixel(sixel_picture(picture), width, height);
    int largest = 0;
    for (size_t i = 0; i < picture.pixels.size(); ++i)
      largest = std::max(largest, std::abs(int{picture.pixels[i]} - int{back.pixels[i]}));
    EXPECT_LE(largest, 255 / 5 / 2 + 3);  // half a step of six levels, and percents
  }
  Picture plain{.width = 9, .height = 2, .pixels = std::vector<uint8_t>(9 * 2 * 3, 255)};
  EXPECT_EQ(play_sixel(sixel_picture(plain), 9, 2).pixels, plain.pixels);
}

TEST(InlinePicture, TheTerminalsVariablesSayWhichWay) {
  const auto way = [](const std::string& term, const std::string& program = "") {
    return inline_pictures_of({.term = term, .program = program});
  };
  EXPECT_EQ(way("xterm-kitty"), InlinePictures::kitty);
  EXPECT_EQ(way("xterm-256color", "ghostty"), InlinePictures::kitty);
  EXPECT_EQ(way("xterm-256color", "iTerm.app"), InlinePictures::iterm2);
  EXPECT_EQ(way("xterm-256color", "WezTerm"), InlinePictures::iterm2);
  EXPECT_EQ(way("foot"), InlinePictures::sixel);
  for (const char* term : {"", "dumb", "linux", "screen.xterm-256color", "tmux-256color"})
    EXPECT_EQ(way(term, "WezTerm"), InlinePictures::none) << term;
  EXPECT_EQ(way("xterm-256color"), std::nullopt);
  EXPECT_EQ(inline_pictures_of({.term = "xterm-kitty", .is_kitty = true, .is_multiplexed = true}),
            InlinePictures::none);
}

TEST(InlinePicture, AnAnswerNamesSixelByItsFour) {
  EXPECT_TRUE(answers_sixel("\x1b[?62;4;22c"));
  EXPECT_TRUE(answers_sixel("\x1b[?63;1;2;4c"));
  for (const char* answer : {"", "c", "\x1b[?62;22c", "\x1b[?4c", "\x1b[?c", "\x1b[?64;14;40c", "\x1b[?62;4"})
    EXPECT_FALSE(answers_sixel(answer)) << answer;
}

}  // namespace
}  // namespace sluice

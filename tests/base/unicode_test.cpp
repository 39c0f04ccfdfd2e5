// The tables against the library they were written from, used another way: whole texts instead of single characters.
#include "base/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr uint32_t kEnd = 0x110000;

bool is_surrogate(uint32_t c) { return c >= 0xd800 && c < 0xe000; }

std::string utf8(const std::vector<uint32_t>& chars) {
  std::string text;
  for (const uint32_t c : chars) append_utf8(text, c);
  return text;
}

std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* composed = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                  static_cast<utf8proc_ssize_t>(text.size()), &composed, options);
  if (bytes < 0) return text;
  std::string out(reinterpret_cast<const char*>(composed), static_cast<size_t>(bytes));
  std::free(composed);
  return out;
}

TEST(Unicode, CategoriesAndCasesAreTheLibrarysForEveryCodePoint) {
  for (uint32_t c = 0; c < kEnd; ++c) {
    const int expected = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    ASSERT_EQ(static_cast<int>(category(c)), expected <= UTF8PROC_CATEGORY_ZP ? expected : 0) << c;
    ASSERT_EQ(to_upper(c), static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)))) << c;
    ASSERT_EQ(to_lower(c), static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))) << c;
  }
  EXPECT_EQ(category(kEnd), Category::other);
  EXPECT_EQ(category(UINT32_MAX), Category::other);
  EXPECT_EQ(category('a'), Category::ll);
  EXPECT_EQ(category(0x2028), Category::zl);
}

TEST(Unicode, EveryCharacterAloneHasTheLibrarysNormalForm) {
  for (uint32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c)) continue;
    const std::string text = utf8({c});
    ASSERT_EQ(to_nfc(text), library_nfc(text)) << c;
  }
}

// Letters, marks of many classes, Hangul and characters that no composition may make, in random order.
TEST(Unicode, RandomTextsHaveTheLibrarysNormalForm) {
  std::vector<uint32_t> interesting;
  for (uint32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c)) continue;
    const bool changes = library_nfc(utf8({'e', c})) != utf8({'e', c}) || library_nfc(utf8({c})) != utf8({c});
    if (changes || is_mark(c)) interesting.push_back(c);
  }
  for (const uint32_t c : {0x61u, 0x73u, 0xc5u, 0x1e0au, 0x3b9u, 0x1100u, 0x1112u, 0x1161u, 0x1175u, 0x11a8u, 0x11c2u,
                           0xac00u, 0xac01u, 0xd7a3u, 0x9c7u, 0x9beu, 0x1112fu, 0x11131u, 0x11127u})
    for (int times = 0; times < 40; ++times) interesting.push_back(c);
  std::mt19937 random(7);
  std::uniform_int_distribution<size_t> pick(0, interesting.size() - 1);
  size_t changed = 0;
  for (int i = 0; i < 50000; ++i) {
    std::vector<uint32_t> chars(1 + random() % 7);
    for (uint32_t& c : chars) c = interesting[pick(random)];
    const std::string text = utf8(chars), expected = library_nfc(text);
    ASSERT_EQ(to_nfc(text), expected) << i;
    changed += expected != text ? 1 : 0;
  }
  EXPECT_GT(changed, 10000u);
}

// U+11A7 stands right before the trailing consonants but is none. The library drops it here; CPython does not.
TEST(Unicode, OnlyTrailingConsonantsJoinASyllable) {
  EXPECT_EQ(to_nfc(utf8({0xac00, 0x11a7})), utf8({0xac00, 0x11a7}));
  EXPECT_EQ(to_nfc(utf8({0xac00, 0x11a8})), utf8({0xac01}));
}

TEST(Unicode, TextThatIsNotUtf8KeepsItsBytes) {
  const std::string broken = "e\xcc\x81\xff e\xcc\x81";
  EXPECT_EQ(to_nfc(broken), broken);
  EXPECT_EQ(to_nfc("e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(to_nfc(""), "");
}

}  // namespace
}  // namespace sluice

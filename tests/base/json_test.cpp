// Documents as hostile files write them: what is refused, with which sentence, and what the odd but right ones become.
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/limits.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

std::string refusal(std::string_view text) {
  const Result<Json> json = parse_json(text, "m.json");
  return json ? "accepted: " + write_json(*json) : json.error().text;
}

std::string times(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Json, DepthIsBounded) {
  const std::string deepest = times("[", kMaxJsonDepth) + times("]", kMaxJsonDepth);
  EXPECT_EQ(refusal(deepest), "accepted: " + deepest);
  EXPECT_EQ(refusal("[" + deepest + "]"), "m.json: nested deeper than 128");
  EXPECT_EQ(refusal(times("[", 1000000)), "m.json: nested deeper than 128");
  EXPECT_EQ(refusal(times("{\"a\":", 1000000)), "m.json: nested deeper than 128");
  EXPECT_EQ(refusal(times("[{\"a\":", 1000000)), "m.json: nested deeper than 128");
}

TEST(Json, TruncatedDocumentsAreRefused) {
  const std::string whole = R"({"a": [1, true, "x\u00e9"], "b": {"c": null}})";
  ASSERT_TRUE(parse_json(whole, "m.json").ok());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(refusal(std::string_view(whole).substr(0, bytes)).rfind("m.json: no JSON at byte ", 0), 0u) << bytes;
  EXPECT_EQ(refusal("\"abc"), "m.json: no JSON at byte 5");
  EXPECT_EQ(refusal("{\"a"), "m.json: no JSON at byte 4");
}

TEST(Json, BrokenStringsAreRefused) {
  EXPECT_EQ(refusal("\"\xff\""), "m.json: no JSON at byte 2");
  EXPECT_EQ(refusal("\"\xc3\""), "m.json: no JSON at byte 3");
  EXPECT_EQ(refusal("\"\xed\xa0\x80\""), "m.json: no JSON at byte 3");  // a lone surrogate, as UTF-8
  EXPECT_EQ(refusal(R"("\ud83d")"), "m.json: no JSON at byte 8");
  EXPECT_EQ(refusal(R"("\x41")"), "m.json: no JSON at byte 3");
  EXPECT_EQ(refusal("\"a\nb\""), "m.json: no JSON at byte 3");
  EXPECT_EQ(refusal(std::string_view("\"a\0b\"", 5)), "m.json: no JSON at byte 3");
}

TEST(Json, DuplicateNamesAreRefused) {
  EXPECT_EQ(refusal(R"({"a":1,"b":2,"a":3})"), "m.json: the name \"a\" stands twice in one object");
  EXPECT_EQ(refusal(R"([{"x":{"\u0061":1,"a":2}}])"), "m.json: the name \"a\" stands twice in one object");
  EXPECT_EQ(refusal(R"({"a":{"a":1}})"), R"(accepted: {"a": {"a": 1}})");
  // Duplicates must be found in n log n: half a million names would take minutes otherwise.
  std::string many = "{";
  for (int i = 0; i < 200000; ++i) many += cat("\"", i, "\":0,");
  EXPECT_EQ(refusal(many + "\"77\":0}"), "m.json: the name \"77\" stands twice in one object");
}

TEST(Json, HugeNumbersAreRefusedOrRounded) {
  EXPECT_EQ(refusal("1e999"), "m.json: no JSON at byte 5");
  EXPECT_EQ(refusal("-1e999"), "m.json: no JSON at byte 6");
  EXPECT_EQ(refusal("NaN"), "m.json: no JSON at byte 1");
  EXPECT_EQ(refusal("Infinity"), "m.json: no JSON at byte 1");
  EXPECT_EQ(refusal("01"), "m.json: no JSON at byte 2");
  EXPECT_EQ(refusal("+1"), "m.json: no JSON at byte 1");
  EXPECT_EQ(refusal("0x10"), "m.json: no JSON at byte 2");
  EXPECT_EQ(refusal("9223372036854775807"), "accepted: 9223372036854775807");
  EXPECT_EQ(refusal("-9223372036854775808"), "accepted: -9223372036854775808");
  EXPECT_FALSE(parse_json("9223372036854775808", "m")->is_integer());
  EXPECT_FALSE(parse_json("18446744073709551615", "m")->is_integer());
  EXPECT_FALSE(parse_json("-9223372036854775809", "m")->is_integer());
  EXPECT_EQ(parse_json("99999999999999999999", "m")->as_number(), 1e20);
  EXPECT_EQ(parse_json(times("1", 300), "m")->as_number(), std::strtod(times("1", 300).c_str(), nullptr));
  EXPECT_TRUE(std::signbit(parse_json("-0.0", "m")->as_number()));
}

uint64_t values_and_names(const Json& json) {
  uint64_t count = 1;
  if (json.is_array())
    for (const Json& one : json.as_array()) count += values_and_names(one);
  if (json.is_object())
    for (const auto& [name, value] : json.as_object()) count += 1 + values_and_names(value);
  return count;
}

TEST(Json, ValuesAreCountedBeforeTheyAreParsed) {
  for (const char* text :
       {"0", "[]", "{}", "[1, 2, [3, {}]]", R"({"a": "b, c: [d]", "e\": \\": [1, "\""]})", "\"a,b\""}) {
    const Json json = unwrap(parse_json(text, "text"));
    EXPECT_GE(most_json_values(text), values_and_names(json)) << text;
    EXPECT_LE(most_json_values(text), values_and_names(json) + 2) << text;
  }
  EXPECT_LE(most_json_values("\"unended, [[["), 1u);
}

TEST(Json, TrailingTextIsRefused) {
  EXPECT_EQ(refusal("{} {}"), "m.json: no JSON at byte 4");
  EXPECT_EQ(refusal("[]]"), "m.json: no JSON at byte 3");
  EXPECT_EQ(refusal("// x\n1"), "m.json: no JSON at byte 1");
  EXPECT_EQ(refusal("[1,]"), "m.json: no JSON at byte 4");
  EXPECT_EQ(refusal(""), "m.json: no JSON at byte 1");
}

}  // namespace
}  // namespace sluice

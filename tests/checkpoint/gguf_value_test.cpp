#include "checkpoint/gguf_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::ElementsAre;

GgufMetadata sample() {
  GgufMetadata metadata("m");
  metadata.add("count", uint32_t{7});
  metadata.add("signed", int32_t{7});
  metadata.add("wide", uint64_t{7});
  metadata.add("epsilon", 1e-6f);
  metadata.add("precise", 1e-6);
  metadata.add("flag", true);
  metadata.add("name", std::string("demo"));
  metadata.add("heads", GgufArray<uint32_t>{4, 4, 2});
  metadata.add("kv_heads", GgufArray<int32_t>{1, 0, 1});
  metadata.add("negative", GgufArray<int32_t>{1, -1, 1});
  metadata.add("windowed", GgufArray<bool>{true, false, true});
  metadata.add("tokens", GgufArray<std::string>{"a", "b"});
  return metadata;
}

TEST(GgufMetadata, KeepsTypesAndOrder) {
  const GgufMetadata metadata = sample();
  EXPECT_EQ(metadata.entries()[1].name, "signed");
  EXPECT_EQ(type_text(metadata.entries()[1].value), "i32");
  EXPECT_EQ(type_text(*metadata.find("windowed")), "array of bool");
  EXPECT_EQ(element_type(*metadata.find("tokens")), GgufType::string);
  EXPECT_EQ(element_count(*metadata.find("heads")), 3u);
  EXPECT_EQ(element_count(*metadata.find("name")), 1u);
  EXPECT_EQ(metadata.find("none"), nullptr);
}

TEST(GgufMetadata, EveryAlternativeSaysItsType) {
  const std::pair<GgufValue, const char*> kValues[] = {
      {uint8_t{}, "u8"},
      {int8_t{}, "i8"},
      {uint16_t{}, "u16"},
      {int16_t{}, "i16"},
      {uint32_t{}, "u32"},
      {int32_t{}, "i32"},
      {float{}, "f32"},
      {bool{}, "bool"},
      {uint64_t{}, "u64"},
      {int64_t{}, "i64"},
      {double{}, "f64"},
      {std::string(), "string"},
      {GgufArray<uint8_t>{}, "array of u8"},
      {GgufArray<int8_t>{}, "array of i8"},
      {GgufArray<uint16_t>{}, "array of u16"},
      {GgufArray<int16_t>{}, "array of i16"},
      {GgufArray<uint32_t>{}, "array of u32"},
      {GgufArray<int32_t>{}, "array of i32"},
      {GgufArray<float>{}, "array of f32"},
      {GgufArray<bool>{}, "array of bool"},
      {GgufArray<uint64_t>{}, "array of u64"},
      {GgufArray<int64_t>{}, "array of i64"},
      {GgufArray<double>{}, "array of f64"},
      {GgufArray<std::string>{}, "array of string"},
  };
  for (const auto& [value, text] : kValues) EXPECT_EQ(type_text(value), text);
}

TEST(GgufMetadata, AKeyIsAddedOnce) {
  GgufMetadata metadata = sample();
  EXPECT_FALSE(metadata.add("count", uint32_t{8}));
  EXPECT_EQ(*metadata.get_u32("count"), 7u);
}

TEST(GgufMetadata, GettersWantTheExactType) {
  const GgufMetadata metadata = sample();
  EXPECT_EQ(*metadata.get_u32("count"), 7u);
  EXPECT_EQ(*metadata.get_f32("epsilon"), 1e-6f);
  EXPECT_EQ(*metadata.get_bool("flag"), true);
  EXPECT_EQ(*metadata.get_string("name"), "demo");
  EXPECT_THAT(**metadata.get_array<std::string>("tokens"), ElementsAre("a", "b"));
  EXPECT_EQ(metadata.get_u32("signed").error().text, "m: key signed is i32: want u32");
  EXPECT_EQ(metadata.get_u32("wide").error().text, "m: key wide is u64: want u32");
  EXPECT_EQ(metadata.get_f32("precise").error().text, "m: key precise is f64: want f32");
  EXPECT_EQ(metadata.get_bool("count").error().text, "m: key count is u32: want bool");
  EXPECT_EQ(metadata.get_string("tokens").error().text, "m: key tokens is array of string: want string");
  EXPECT_EQ(metadata.get_array<float>("heads").error().text, "m: key heads is array of u32: want array of f32");
  EXPECT_EQ(metadata.get_u32("signed").error().kind, ErrorKind::invalid);
}

TEST(GgufMetadata, AMissingKeyIsNotFound) {
  const auto missing = sample().get_u32("x.block_count");
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_EQ(missing.error().text, "m: key x.block_count is missing: want u32");
}

TEST(GgufMetadata, PerLayerTakesOneForAllOrOneEach) {
  const GgufMetadata metadata = sample();
  EXPECT_THAT(*metadata.get_per_layer("count", 3), ElementsAre(7, 7, 7));
  EXPECT_THAT(*metadata.get_per_layer("heads", 3), ElementsAre(4, 4, 2));
  EXPECT_THAT(*metadata.get_per_layer("kv_heads", 3), ElementsAre(1, 0, 1));
  EXPECT_THAT(*metadata.get_per_layer("windowed", 3), ElementsAre(1, 0, 1));
  EXPECT_EQ(metadata.get_per_layer("heads", 4).error().text, "m: key heads has 3 elements: want 4, one a layer");
  EXPECT_EQ(metadata.get_per_layer("negative", 3).error().text, "m: key negative holds a negative number: want none");
  EXPECT_EQ(metadata.get_per_layer("tokens", 2).error().text,
            "m: key tokens is array of string: want u32 or one a layer");
  EXPECT_EQ(metadata.get_per_layer("none", 2).error().text, "m: key none is missing: want u32 or one a layer");
}

}  // namespace
}  // namespace sluice

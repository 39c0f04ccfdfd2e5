#include "format/format.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "golden.h"

namespace sluice {
namespace {

TEST(Format, EveryEncoderRoundTripsItsOwnValuesAtAnyAddress) {
  for (const FormatInfo& info : all_formats()) {
    if (info.encode == nullptr) continue;
    auto values = golden_input(3, true);
    values.resize(512);
    const auto bytes = encode(info.format, values);
    const auto once = decode(info.format, bytes, values.size());
    EXPECT_LT(relative_error(values, once), 0.4) << info.name;
    std::vector<std::byte> shifted(bytes.size() + 1);
    encode_row(info.format, once.data(), shifted.data() + 1, once.size());
    std::vector<float> again(once.size());
    decode_row(info.format, shifted.data() + 1, again.data(), again.size());
    // Formats of numbers are stable after one round. Scales go through f16, and least squares may find other ones.
    EXPECT_LE(relative_error(once, again), info.block_elements == 1 ? 0.0 : 0.75 * relative_error(values, once))
        << info.name;
  }
}

TEST(Format, TheLargestValueOfAFormatStaysFinite) {
  for (const FormatInfo& info : all_formats()) {
    if (info.encode == nullptr) continue;
    for (const float sign : {1.0f, -1.0f}) {
      const auto found = decode(info.format, encode(info.format, std::vector<float>(256, sign * info.largest)), 256);
      EXPECT_NEAR(found[0] / info.largest, sign, 1e-3f) << info.name;
    }
  }
}

// A format may be listed before models can use it, but never the other way round.
TEST(Format, FormatsOfModelsHaveADecoder) {
  for (const FormatInfo& info : all_formats()) EXPECT_LE(info.decodable, info.decode != nullptr) << info.name;
}

TEST(Format, NoColumnsAreNoBytes) {
  EXPECT_EQ(row_bytes(Format::q8_0, 0), 0u);
  decode_row(Format::q8_0, nullptr, nullptr, 0);
  encode_row(Format::f16, nullptr, nullptr, 0);
}

struct BlockFact {
  int ggml_type;
  const char* name;
  uint32_t elements, bytes;
};
// Types, ids, block sizes and bytes as ggml-common.h has them.
constexpr BlockFact kGgmlBlocks[] = {
    {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},      {3, "q4_1", 32, 20},
    {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},      {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},
    {10, "q2_k", 256, 84},    {11, "q3_k", 256, 110},   {12, "q4_k", 256, 144},   {13, "q5_k", 256, 176},
    {14, "q6_k", 256, 210},   {15, "q8_k", 256, 292},   {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74},
    {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},   {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},
    {22, "iq2_s", 256, 82},   {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},         {25, "i16", 1, 2},
    {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},        {29, "iq1_m", 256, 56},
    {30, "bf16", 1, 2},       {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},
    {40, "nvfp4", 64, 36},    {41, "q1_0", 128, 18},    {42, "q2_0", 64, 18},
};

TEST(Format, TheTableHasEveryGgmlTypeWithItsSize) {
  std::set<int> known;
  for (const BlockFact& fact : kGgmlBlocks) {
    const auto format = format_by_ggml_type(fact.ggml_type);
    ASSERT_TRUE(format.has_value()) << fact.name;
    EXPECT_STREQ(format_info(*format).name, fact.name);
    EXPECT_EQ(format_info(*format).block_elements, fact.elements) << fact.name;
    EXPECT_EQ(format_info(*format).block_bytes, fact.bytes) << fact.name;
    EXPECT_EQ(format_by_name(fact.name), format);
    known.insert(fact.ggml_type);
  }
  for (int id = -2; id < 400; ++id) EXPECT_EQ(format_by_ggml_type(id).has_value(), known.contains(id)) << id;
}

TEST(Format, TheTableHasEverySafetensorsDtype) {
  const std::pair<const char*, int> kBits[] = {
      {"BOOL", 8}, {"U8", 8},      {"I8", 8},      {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16},
      {"I32", 32}, {"U32", 32},    {"F32", 32},    {"F64", 64},    {"I64", 64},    {"U64", 64}, {"F8_E4M3", 8},
      {"F4", 4},   {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
  };
  for (const auto& [name, bits] : kBits) {
    const auto format = format_by_safetensors_name(name);
    ASSERT_TRUE(format.has_value()) << name;
    EXPECT_EQ(row_bytes(*format, 64), static_cast<uint64_t>(bits) * 8) << name;
  }
  EXPECT_FALSE(format_by_safetensors_name("F128"));
  EXPECT_FALSE(format_by_safetensors_name(""));
}

TEST(Format, TensorBytesAreCheckedProducts) {
  const auto bytes = [](Format format, std::vector<int64_t> shape) { return tensor_bytes(format, shape); };
  EXPECT_EQ(bytes(Format::f32, {}), 4u);
  EXPECT_EQ(bytes(Format::f32, {3, 5}), 60u);
  EXPECT_EQ(bytes(Format::q8_0, {3, 64}), 204u);
  EXPECT_EQ(bytes(Format::f32, {0, 5}), 0u);
  EXPECT_EQ(bytes(Format::q8_0, {5, 0}), 0u);
  EXPECT_EQ(bytes(Format::q8_0, {64, 33}), std::nullopt);  // 64 * 33 is whole blocks, but no row is
  EXPECT_EQ(bytes(Format::q8_0, {}), std::nullopt);
  EXPECT_EQ(bytes(Format::f32, {-4}), std::nullopt);
  EXPECT_EQ(bytes(Format::f32, {int64_t{1} << 32, int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(bytes(Format::i8, {2, int64_t{1} << 31, int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(bytes(Format::f32, {int64_t{1} << 62}), std::nullopt);
  EXPECT_EQ(bytes(Format::i8, {INT64_MAX}), uint64_t{INT64_MAX});
  EXPECT_EQ(bytes(Format::f32, {211106198978564, 4194305, 4194305}), std::nullopt);
}

}  // namespace
}  // namespace sluice

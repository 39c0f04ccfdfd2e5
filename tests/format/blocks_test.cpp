// Every block format against the peer's: decoders to the bit on random bytes, encoders on the golden blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "format/f8.h"
#include "format/fp4.h"
#include "format/q8_0.h"
#include "golden.h"

namespace sluice {
namespace {

std::vector<Format> block_formats(bool encodable) {
  std::vector<Format> formats;
  for (const FormatInfo& info : all_formats())
    if (info.decode != nullptr && info.ggml_type >= 0 && info.block_elements > 1 &&
        (info.encode != nullptr || !encodable))
      formats.push_back(info.format);
  return formats;
}

std::string upper_name(Format format) {
  std::string name = format_name(format);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

class OfFormat : public testing::TestWithParam<Format> {
 protected:
  const FormatInfo& info_ = format_info(GetParam());
  const std::string name_ = upper_name(GetParam());
};
class Decoders : public OfFormat {};
class Encoders : public OfFormat {};

TEST_P(Decoders, DecodeRandomBytesToThePeersBits) {
  const auto golden = golden_line("decoded_blocks.txt", info_.name);
  ASSERT_EQ(golden.size(), 2u);
  Generator generator(5);
  std::vector<std::byte> block(info_.block_bytes);
  std::vector<float> all;
  const size_t wanted = size_t{64} * info_.block_elements;
  while (all.size() < wanted) {
    for (std::byte& byte : block) byte = generator.byte();
    const auto values = decode(info_.format, block, info_.block_elements);
    if (std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
      all.insert(all.end(), values.begin(), values.end());
  }
  char found[9];
  std::snprintf(found, sizeof found, "%08x", crc32(all.data(), all.size() * sizeof(float)));
  EXPECT_EQ(found, golden[1]);
}

// The golden blocks hold the generator's values: decoding gives these back, about as well as the whole matrix.
TEST_P(Decoders, DecodeTheGoldenBlocksToTheirValues) {
  auto golden = golden_line("golden_blocks.txt", name_ + ":");
  if (golden.empty()) golden = golden_line("golden_blocks.txt", name_ + "*:");
  ASSERT_EQ(golden.size(), 2u);
  const auto errors = golden_line("golden_blocks.txt", name_);  // Q8_0 8 A error/crc Aw error/crc B ...
  ASSERT_EQ(errors.size(), 10u);
  const auto bytes = from_hex(golden[1]);
  ASSERT_EQ(bytes.size(), row_bytes(info_.format, 256));
  auto values = golden_input(1, false);
  values.resize(256);
  const double wanted = std::stod(errors[3] == "-" ? errors[5] : errors[3]);
  EXPECT_NEAR(relative_error(values, decode(info_.format, bytes, 256)) / wanted, 1.0, 0.15);
}

TEST_P(Encoders, EncodeTheGoldenBlocksToThePeersBits) {
  const auto golden = golden_line("golden_blocks.txt", name_ + ":");
  ASSERT_EQ(golden.size(), 2u);
  auto values = golden_input(1, false);
  values.resize(256);
  EXPECT_EQ(hex(encode(info_.format, values)), golden[1]);
}

// Another compiler may sum in another order, which changes single blocks: then the CRC differs, but not the error.
TEST_P(Encoders, EncodeTheGoldenMatricesWithThePeersError) {
  const auto golden = golden_line("golden_blocks.txt", name_);
  ASSERT_EQ(golden.size(), 10u);
  for (const bool outliers : {false, true}) {
    const auto values = golden_input(outliers ? 2 : 1, outliers);
    const auto bytes = encode(info_.format, values);
    const std::string& wanted = golden[outliers ? 7 : 3];
    EXPECT_NEAR(relative_error(values, decode(info_.format, bytes, values.size())) / std::stod(wanted), 1.0, 1e-4);
    char crc[9];
    std::snprintf(crc, sizeof crc, "%08x", crc32(bytes.data(), bytes.size()));
    EXPECT_EQ(crc, wanted.substr(wanted.find('/') + 1));
  }
}

TEST_P(Encoders, EncodeZerosAsZeros) {
  const std::vector<float> zeros(512, 0.0f);
  EXPECT_EQ(decode(info_.format, encode(info_.format, zeros), zeros.size()), zeros);
}

TEST_P(Encoders, EncodeConstantsAlmostExactly) {
  for (const float constant : {1.0f, -1.0f, -384.0f}) {  // 384 = 6 * 2^6, which 4-bit floats hold too
    const std::vector<float> values(256, constant);
    EXPECT_LT(relative_error(values, decode(info_.format, encode(info_.format, values), 256)), 1e-3) << constant;
  }
}

// Scales that are subnormal, zero after division, infinite or NaN: no undefined conversion (the sanitizers look on).
TEST_P(Encoders, EncodeExtremesWithoutUndefinedBehaviour) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float extreme : {1e-45f, 1e-39f, 1e-16f, 3.4e38f, -3.4e38f, kInfinity, -kInfinity, std::nanf("")}) {
    std::vector<float> values(256, extreme);
    for (const float other : {extreme, 1.0f, -1.0f}) {
      values[7] = other;
      EXPECT_EQ(encode(info_.format, values).size(), row_bytes(info_.format, 256));
    }
  }
  const std::vector<float> smallest(256, 1e-45f);
  EXPECT_EQ(decode(info_.format, encode(info_.format, smallest), 256), std::vector<float>(256, 0.0f));
}

std::string parameter_name(const testing::TestParamInfo<Format>& param) { return format_name(param.param); }
INSTANTIATE_TEST_SUITE_P(Format, Decoders, testing::ValuesIn(block_formats(false)), parameter_name);
INSTANTIATE_TEST_SUITE_P(Format, Encoders, testing::ValuesIn(block_formats(true)), parameter_name);

TEST(Q8_0, DecodesABlockWrittenByHand) {
  Q8_0::Block block{0xb800, {}};  // d = -0.5
  for (int i = 0; i < 32; ++i) block.q[i] = static_cast<int8_t>(i * 8 - 128);
  float values[32];
  Q8_0::load16(block, 0, values);
  Q8_0::load16(block, 1, values + 16);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[i], -0.5f * static_cast<float>(i * 8 - 128));
}

TEST(Q8_0, RoundsHalvesAwayFromZero) {
  std::vector<float> values(32, 0.0f);
  values[0] = 127.0f;  // d = 1
  values[1] = 2.5f;
  values[2] = -2.5f;
  values[3] = 2.4999998f;
  const auto found = decode(Format::q8_0, encode(Format::q8_0, values), 32);
  EXPECT_EQ(found[0], 127.0f);
  EXPECT_EQ(found[1], 3.0f);
  EXPECT_EQ(found[2], -3.0f);
  EXPECT_EQ(found[3], 2.0f);
}

TEST(MXFP4, ScalesArePowersOfTwoDownToSubnormals) {
  for (int e = 0; e < 256; ++e)
    EXPECT_EQ(MXFP4::half_scale(static_cast<uint8_t>(e)), static_cast<float>(std::ldexp(1.0, e - 128))) << e;
}

// From the definition: OFP8, https://www.opencompute.org (8-bit floating point specification).
TEST(F8, DecodesEveryPattern) {
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    const float found = f32_from_e4m3(static_cast<uint8_t>(bits));
    if ((bits & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(found)) << bits;
    else
      EXPECT_EQ(found, static_cast<float>(bits & 0x80 ? -magnitude : magnitude)) << bits;
  }
  for (int bits = 0; bits < 255; ++bits)
    EXPECT_EQ(decode(Format::f8_e8m0, {static_cast<std::byte>(bits)}, 1)[0], std::ldexp(1.0f, bits - 127)) << bits;
  EXPECT_TRUE(std::isnan(decode(Format::f8_e8m0, {std::byte{0xff}}, 1)[0]));
  const std::vector<std::byte> wide = {std::byte{0x3c}, std::byte{0xc5}, std::byte{0x01}, std::byte{0x7b}};
  EXPECT_EQ(decode(Format::f8_e5m2, wide, 4), (std::vector<float>{1.0f, -5.0f, 0x1p-16f, 57344.0f}));
}

// The first element is in the low half. The sign of zero does not matter.
TEST(F4, DecodesEveryPattern) {
  const float numbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int low = 0; low < 16; ++low)
    for (int high = 0; high < 16; ++high) {
      const auto found = decode(Format::f4, {static_cast<std::byte>(low | high << 4)}, 2);
      EXPECT_EQ(found[0], low < 8 ? numbers[low] : -numbers[low - 8]);
      EXPECT_EQ(found[1], high < 8 ? numbers[high] : -numbers[high - 8]);
    }
}

}  // namespace
}  // namespace sluice

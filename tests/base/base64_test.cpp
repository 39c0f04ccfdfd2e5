// The vectors of RFC 4648, section 10, and what is no base64.
#include "base/base64.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Base64, DecodesTheVectorsOfTheRfc) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYg"), "foob");
  EXPECT_EQ(decode_base64("Zm9vYmE="), "fooba");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("+/+/"), "\xfb\xff\xbf");
}

TEST(Base64, EncodesTheVectorsOfTheRfc) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("foo"), "Zm9v");
  EXPECT_EQ(encode_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode_base64("\xfb\xff\xbf"), "+/+/");
}

TEST(Base64, IsRefusedWhereItIsNone) {
  for (const char* text : {"Z", "Zm9vY", "Zm9v\n", "Zm=v", "Z===", "-_-_", "\xff\xff\xff\xff"})
    EXPECT_FALSE(decode_base64(text)) << text;
}

}  // namespace
}  // namespace sluice

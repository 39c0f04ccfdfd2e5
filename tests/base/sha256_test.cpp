// Vectors: NIST's examples of FIPS 180-4 (csrc.nist.gov, "SHA256.pdf" and "SHA2_Additional.pdf").
#include "base/sha256.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::string digest_of(std::string_view text) {
  Sha256 sha;
  sha.add(text);
  return sha.finish_hex();
}

TEST(Sha256, EmptyMessage) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, OneBlock) {
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, LengthThatNeedsASecondBlockForItsPadding) {
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, LengthsAroundABlock) {
  EXPECT_EQ(digest_of(std::string(55, '\0')), "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  EXPECT_EQ(digest_of(std::string(56, '\0')), "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  EXPECT_EQ(digest_of(std::string(57, '\0')), "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
  EXPECT_EQ(digest_of(std::string(64, '\0')), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

TEST(Sha256, AMillionBytesInOddPieces) {
  Sha256 sha;
  const std::string piece(997, 'a');
  size_t left = 1000000;
  while (left > 0) {
    const size_t taken = std::min(left, piece.size());
    sha.add(std::string_view(piece).substr(0, taken));
    left -= taken;
  }
  EXPECT_EQ(sha.finish_hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace sluice

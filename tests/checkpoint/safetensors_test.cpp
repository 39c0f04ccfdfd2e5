// One file for each rule of the format's reference reader.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<std::vector<TensorEntry>> parse(std::string_view file) {
  const MemorySource source("m", bytes_of(file));
  return parse_safetensors(source, "m");
}

// One tensor "t" of `dtype`, with shape and offsets as written, and so much data.
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, size_t data) {
  return safetensors_of(cat(R"({"t":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets, "}}"),
                        data);
}

struct Malformed {
  const char* name;
  std::string file;
  const char* sentence;
};

std::vector<Malformed> bad_headers() {
  return {
      {"empty", "", "m: 0 bytes: want a header length of 8"},
      {"7 bytes", zeros(7), "m: 7 bytes: want a header length of 8"},
      {"no header", zeros(8), "m: the header does not begin with {"},
      {"header beyond the file", u64(3) + "{}", "m: the header has 3 bytes: want at most 2"},
      {"length that wraps", u64(UINT64_MAX - 3) + "{}", "m: the header has 18446744073709551612 bytes: want at most 2"},
      {"begins with a space", safetensors_of(" {}", 0), "m: the header does not begin with {"},
      {"an array", safetensors_of("[]", 0), "m: the header does not begin with {"},
      {"no JSON", safetensors_of("{\"t\":}", 0), "m: no JSON at byte"},
      {"not UTF-8", safetensors_of("{\"\xff\":1}", 0), "m: no JSON at byte"},
      {"followed by something", safetensors_of("{}x", 0), "m: no JSON at byte"},
      {"a name twice", safetensors_of(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":1})", 0),
       "m: the name \"t\" stands twice in one object"},
      {"metadata of numbers", safetensors_of(R"({"__metadata__":{"a":1}})", 0),
       "m: __metadata__ holds something else: want names with strings"},
      {"metadata no object", safetensors_of(R"({"__metadata__":"a"})", 0),
       "m: __metadata__ holds something else: want names with strings"},
  };
}

std::vector<Malformed> bad_tensors() {
  return {
      {"no object", safetensors_of(R"({"t":5})", 0), "m: tensor t has no dtype"},
      {"no dtype", safetensors_of(R"({"t":{"shape":[],"data_offsets":[0,1]}})", 1), "m: tensor t has no dtype"},
      {"no shape", safetensors_of(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1),
       "m: tensor t: shape missing: want a list"},
      {"no offsets", safetensors_of(R"({"t":{"dtype":"U8","shape":[1]}})", 1),
       "m: tensor t: data_offsets missing: want a list"},
      {"unknown dtype", one("Q17", "[4]", "[0,4]", 4), "m: tensor t has dtype Q17: want a known dtype"},
      {"unknown dtype, lying size", one("Q17", "[4]", "[0,4000]", 4), "m: tensor t has dtype Q17: want a known dtype"},
      {"negative dimension", one("U8", "[-4]", "[0,4]", 4),
       "m: tensor t: shape holds -4: want integers from 0 below 2^63"},
      {"fractional dimension", one("U8", "[4.0]", "[0,4]", 4), "m: tensor t: shape holds 4.0: want integers"},
      {"dimension beyond 64 bits", one("U8", "[18446744073709551616]", "[0,4]", 4), "m: tensor t: shape holds"},
      {"shape of text", one("U8", "[\"4\"]", "[0,4]", 4), "m: tensor t: shape holds \"4\": want integers"},
      {"9 dimensions", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]", 1), "m: tensor t has 9 dimensions: want at most 8"},
      {"product wraps", one("I8", "[4194305,4194305,211106198978564]", "[0,4]", 4),
       "m: tensor t is i8 [4194305, 4194305, 211106198978564] in 4 bytes: want a size below 2^63"},
      {"too few bytes", one("F32", "[2,2]", "[0,12]", 12), "m: tensor t is f32 [2, 2] in 12 bytes: want 16"},
      {"too many bytes", one("F32", "[2,2]", "[0,20]", 20), "m: tensor t is f32 [2, 2] in 20 bytes: want 16"},
      {"one offset", one("U8", "[4]", "[0]", 4), "m: tensor t: data_offsets are [0]: want begin and end"},
      {"three offsets", one("U8", "[4]", "[0,4,8]", 4), "m: tensor t: data_offsets are [0, 4, 8]: want begin and end"},
      {"reversed offsets", one("U8", "[4]", "[4,0]", 4), "m: tensor t: data_offsets are [4, 0]: want begin and end"},
      {"negative offset", one("U8", "[4]", "[-4,0]", 4), "m: tensor t: data_offsets holds -4: want integers"},
  };
}

std::string two(std::string_view first, std::string_view second, size_t data) {
  return safetensors_of(cat(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)", first,
                            R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)", second, "}}"),
                        data);
}

std::vector<Malformed> bad_layouts() {
  return {
      {"hole at the beginning", one("U8", "[4]", "[1,5]", 5), "m: tensor t begins at 1 of the data: want 0"},
      {"hole", two("[0,4]", "[5,9]", 9), "m: tensor b begins at 5 of the data: want 4"},
      {"overlap", two("[0,4]", "[3,7]", 7), "m: tensor b begins at 3 of the data: want 4"},
      {"same bytes twice", two("[0,4]", "[0,4]", 4), "m: tensor b begins at 0 of the data: want 4"},
      {"end beyond the file", one("U8", "[4]", "[0,4]", 3),
       "m: the tensors end at 4 of the data: want 3, the end of the file"},
      {"bytes behind the last", one("U8", "[4]", "[0,4]", 5),
       "m: the tensors end at 4 of the data: want 5, the end of the file"},
      {"data without tensors", safetensors_of("{}", 1),
       "m: the tensors end at 0 of the data: want 1, the end of the file"},
  };
}

class MalformedSafetensors : public ::testing::TestWithParam<std::vector<Malformed> (*)()> {};

TEST_P(MalformedSafetensors, IsRefusedWithOneSentence) {
  for (const Malformed& malformed : GetParam()()) {
    const auto tensors = parse(malformed.file);
    ASSERT_FALSE(tensors.ok()) << malformed.name;
    EXPECT_THAT(tensors.error().text, StartsWith(malformed.sentence)) << malformed.name;
    EXPECT_EQ(tensors.error().text.find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Safetensors, MalformedSafetensors, ::testing::Values(bad_headers, bad_tensors, bad_layouts));

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const auto tensors = parse(two("[4,8]", "[0,4]", 8));
  ASSERT_TRUE(tensors.ok()) << tensors.error().text;
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[1].name, "a");
  EXPECT_EQ((*tensors)[1].offset, (*tensors)[0].offset + 4);
  EXPECT_EQ((*tensors)[1].bytes, 4u);
  EXPECT_THAT((*tensors)[1].shape, ElementsAre(4));
}

TEST(Safetensors, DataMayBeginAtAnOddOffset) {
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    const std::string header =
        R"({"t":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}})" + std::string(spaces, ' ');
    const auto tensors = parse(safetensors_of(header, 4));
    ASSERT_TRUE(tensors.ok()) << tensors.error().text;
    EXPECT_EQ((*tensors)[0].offset, 8 + header.size());
  }
}

TEST(Safetensors, TensorsWithoutElementsMayShareAnOffset) {
  const auto tensors = parse(safetensors_of(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
                                            R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                            R"("c":{"dtype":"U8","shape":[3,0],"data_offsets":[4,4]}})",
                                            4));
  ASSERT_TRUE(tensors.ok()) << tensors.error().text;
  EXPECT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->front().name, "b");
  EXPECT_EQ(tensors->back().bytes, 0u);
}

TEST(Safetensors, MetadataIsTextAndNoTensor) {
  const auto tensors = parse(safetensors_of(R"({"__metadata__":{"format":"pt"}})", 0));
  ASSERT_TRUE(tensors.ok());
  EXPECT_TRUE(tensors->empty());
}

TEST(Safetensors, ElementsSmallerThanAByteAreSized) {
  EXPECT_TRUE(parse(one("F4", "[3,6]", "[0,9]", 9)).ok());
  EXPECT_TRUE(parse(one("F6_E2M3", "[3,4]", "[0,9]", 9)).ok());
  EXPECT_FALSE(parse(one("F4", "[3,6]", "[0,18]", 18)).ok());
}

TEST(Safetensors, AHeaderBeyondTheLimitIsNotAllocated) {
  const std::string start = u64(100000001);
  const ShortSource source(start, uint64_t{1} << 40);
  EXPECT_EQ(parse_safetensors(source, "m").error().text, "m: the header has 100000001 bytes: want at most 100000000");
}

TEST(Safetensors, EveryTruncationIsRefusedWithOneSentence) {
  const std::string file = two("[0,4]", "[4,8]", 8);
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    const auto tensors = parse(std::string_view(file).substr(0, bytes));
    ASSERT_FALSE(tensors.ok()) << bytes;
    EXPECT_THAT(tensors.error().text, StartsWith("m: ")) << bytes;
  }
}

TEST(Safetensors, EveryFailingReadIsOneSentence) {
  const std::string file = two("[0,4]", "[4,8]", 8);
  int failing = 0;
  for (;; ++failing) {
    const FailingSource source(file, failing);
    const auto tensors = parse_safetensors(source, "m");
    if (tensors.ok()) break;
    EXPECT_EQ(tensors.error().text, "disk: cannot read: Input/output error");
  }
  EXPECT_EQ(failing, 2);
}

}  // namespace
}  // namespace sluice

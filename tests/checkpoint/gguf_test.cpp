// Malformed and odd GGUF files. The accepted ones are those the format's own reader accepts; the refused ones include
// those whose sizes wrap around, which it has accepted.
#include "checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<GgufHeader> parse(std::string_view file) {
  const MemorySource source("m", bytes_of(file));
  return parse_gguf(source, "m");
}

struct Malformed {
  const char* name;
  std::string file;
  const char* sentence;
};

std::string key_file(const std::string& key) { return padded(gguf_start(0, 1) + key); }

std::vector<Malformed> bad_starts() {
  return {
      {"empty", "", "m: byte 0: the header ends inside the magic: want 4 bytes, found 0"},
      {"magic only", "GGUF", "m: byte 4: the header ends inside the version: want 4 bytes, found 0"},
      {"bad magic", padded("GGUX" + gguf_start(0, 0).substr(4)), "m: byte 4: the file does not begin with GGUF"},
      {"version 0", gguf_start(0, 0, 0), "m: byte 8: version 0: want 2 or 3"},
      {"version 1", gguf_start(0, 0, 1), "m: byte 8: version 1: want 2 or 3"},
      {"version 4", gguf_start(0, 0, 4), "m: byte 8: version 4: want 2 or 3"},
      {"byte-swapped version", gguf_start(0, 0, 0x03000000), "m: byte 8: a big-endian file: want little-endian"},
      {"negative tensors", padded(gguf_start(-1, 0)), "m: byte 24: -1 tensors: want 0 to 0"},
      {"negative keys", padded(gguf_start(0, -1)), "m: byte 24: -1 keys: want 0 to 0"},
      {"2^62 tensors", padded(gguf_start(int64_t{1} << 62, 0)), "m: byte 24: 4611686018427387904 tensors: want 0 to 0"},
      {"2^62 keys", padded(gguf_start(0, int64_t{1} << 62)), "m: byte 24: 4611686018427387904 keys: want 0 to 0"},
      {"more keys than present", gguf_start(0, 2) + architecture(),
       "m: byte 65: the header ends inside a key: want 8 bytes, found 0"},
  };
}

std::vector<Malformed> bad_keys() {
  const std::string rest(40, 'x');
  return {
      {"key length 2^63", gguf_start(0, 1) + u64(uint64_t{1} << 63) + rest,
       "m: byte 32: a key has 9223372036854775808 bytes: want at most 40"},
      {"key length 2^30+1", gguf_start(0, 1) + u64((uint64_t{1} << 30) + 1) + rest,
       "m: byte 32: a key has 1073741825 bytes: want at most 40"},
      {"key length beyond file", gguf_start(0, 1) + u64(1000) + rest,
       "m: byte 32: a key has 1000 bytes: want at most 40"},
      {"empty key", key_file(u32_key("", 1)), "m: byte 32: key 0 has no name"},
      {"duplicate key", padded(gguf_start(0, 2) + u32_key("a", 1) + u32_key("a", 2)), "m: byte 58: key a stands twice"},
      {"value type 13", key_file(gguf_key("a", 13, u32(1))), "m: byte 37: value type 13: want 0 to 12 (key a)"},
      {"value type -1", key_file(gguf_key("a", 0xffffffff, u32(1))),
       "m: byte 37: value type 4294967295: want 0 to 12 (key a)"},
      {"array in array", key_file(gguf_key("a", 9, u32(9) + u64(1) + u32(4) + u64(1) + u32(5))),
       "m: byte 41: an array of arrays: want no nesting (key a)"},
      {"element type 99", key_file(gguf_key("a", 9, u32(99) + u64(1) + zeros(8))),
       "m: byte 41: value type 99: want 0 to 12 (key a)"},
      {"array of 2^61 u32", gguf_start(0, 1) + gguf_key("a", 9, u32(4) + u64(uint64_t{1} << 61) + zeros(8)),
       "m: byte 49: an array has 2305843009213693952 elements: want at most 2 (key a)"},
      {"array of 2^30+1 u8", gguf_start(0, 1) + gguf_key("a", 9, u32(0) + u64((uint64_t{1} << 30) + 1) + zeros(8)),
       "m: byte 49: an array has 1073741825 elements: want at most 8 (key a)"},
      {"1000 strings in 8 bytes", gguf_start(0, 1) + gguf_key("a", 9, u32(8) + u64(1000) + zeros(8)),
       "m: byte 49: an array has 1000 elements: want at most 1 (key a)"},
      {"string longer than the file", key_file(gguf_key("a", 8, u64(1000))),
       "m: byte 45: a string has 1000 bytes: want at most 19 (key a)"},
  };
}

std::vector<Malformed> bad_alignments() {
  const char* key = "general.alignment";
  return {
      {"alignment 0", key_file(u32_key(key, 0)), "m: general.alignment is 0: want a power of two"},
      {"alignment 24", key_file(u32_key(key, 24)), "m: general.alignment is 24: want a power of two"},
      {"alignment as u64", key_file(gguf_key(key, 10, u64(32))), "m: key general.alignment is u64: want u32"},
      {"alignment as string", key_file(string_key(key, "32")), "m: key general.alignment is string: want u32"},
  };
}

// One tensor info begins at byte 65 and has 8 + 1 + 4 + 8 * dimensions + 4 + 8 bytes.
std::vector<Malformed> bad_tensors() {
  const int64_t big = int64_t{1} << 31;
  const int64_t huge = int64_t{1} << 32;
  const std::string wants = ": want dimensions of at least 0, whole blocks of ";
  return {
      {"5 dimensions", gguf_of(gguf_info("t", {1, 1, 1, 1, 1})),
       "m: byte 78: tensor t has 5 dimensions: want at most 4"},
      {"2^32-1 dimensions", gguf_of(text("t") + u32(0xffffffff) + number(int64_t{1}) + i32(0) + u64(0)),
       "m: byte 78: tensor t has 4294967295 dimensions: want at most 4"},
      {"negative dimension", gguf_of(gguf_info("t", {-4})), "m: byte 98: tensor t is f32 [-4]: want dimensions of"},
      {"type 43", gguf_of(gguf_info("t", {4}, 43)), "m: byte 98: tensor t has type 43: want a known type"},
      {"type -1", gguf_of(gguf_info("t", {4}, -1)), "m: byte 98: tensor t has type -1: want a known type"},
      {"type 4, removed", gguf_of(gguf_info("t", {4}, 4)), "m: byte 98: tensor t has type 4: want a known type"},
      {"type 31, removed", gguf_of(gguf_info("t", {32}, 31)), "m: byte 98: tensor t has type 31: want a known type"},
      {"a fork's type", gguf_of(gguf_info("t", {256}, 137)), "m: byte 98: tensor t has type 137 (iq2_k, of a fork)"},
      {"a fork's interleaved type", gguf_of(gguf_info("t", {256}, 339)),
       "m: byte 98: tensor t has type 339 (iq4_k, row-interleaved, of a fork): want a known type"},
      {"an interleaved type", gguf_of(gguf_info("t", {256}, 212)),
       "m: byte 98: tensor t has type 212 (q4_k, row-interleaved, of a fork): want a known type"},
      {"q4_0 with rows of 33", gguf_of(gguf_info("t", {33}, 2), 64),
       "m: byte 98: tensor t is q4_0 [33]: want dimensions of at least 0, whole blocks of 32 and a size below 2^63"},
      {"product 2^63", gguf_of(gguf_info("t", {big, big, 2}, 24)),
       "m: byte 114: tensor t is i8 [2, 2147483648, 2147483648]: want"},
      {"product wraps to 0", gguf_of(gguf_info("t", {huge, huge})),
       "m: byte 106: tensor t is f32 [4294967296, 4294967296]: want"},
      {"(2^63-1) x 2", gguf_of(gguf_info("t", {INT64_MAX, 2}, 24)),
       "m: byte 106: tensor t is i8 [2, 9223372036854775807]: want"},
      {"padding wraps to 0", gguf_of(gguf_info("t", {4, (1 << 30) - 1, (1 << 30) + 1}), 64),
       "m: byte 114: tensor t is f32 [1073741825, 1073741823, 4]: want"},
      {"bytes overflow", gguf_of(gguf_info("t", {int64_t{1} << 62})),
       "m: byte 98: tensor t is f32 [4611686018427387904]: want"},
      {"name of 64 bytes", gguf_of(gguf_info(std::string(64, 'n'), {4})),
       "m: byte 137: tensor nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn has a name of 64 bytes: "
       "want at most 63"},
      {"duplicate name",
       padded(gguf_start(2, 1) + architecture() + gguf_info("t", {4}) + gguf_info("t", {4}, 0, 32)) + zeros(64),
       "m: byte 131: tensor t stands twice"},
      {"ends inside an info", (gguf_start(1, 1) + architecture() + gguf_info("t", {4})).substr(0, 93),
       "m: byte 90: the header ends inside a tensor info: want 8 bytes, found 3"},
  };
}

std::vector<Malformed> bad_offsets() {
  const auto two = [](const std::string& infos, size_t data) {
    return padded(gguf_start(2, 1) + architecture() + infos) + zeros(data);
  };
  return {
      {"offset 4", gguf_of(gguf_info("t", {4}, 0, 4), 64), "m: tensor t begins at 4 of the data: want 0"},
      {"gap", gguf_of(gguf_info("t", {4}, 0, 64), 128), "m: tensor t begins at 64 of the data: want 0"},
      {"overlap", two(gguf_info("a", {16}) + gguf_info("b", {16}, 0, 32), 128),
       "m: tensor b begins at 32 of the data: want 64"},
      {"reverse order", two(gguf_info("a", {8}, 0, 32) + gguf_info("b", {8}), 64),
       "m: tensor a begins at 32 of the data: want 0"},
      {"offset 2^64-32", gguf_of(gguf_info("t", {4}, 0, uint64_t{0} - 32), 64),
       "m: tensor t begins at 18446744073709551584 of the data: want 0"},
      {"tensor larger than the file", gguf_of(gguf_info("t", {1000})),
       "m: is cut short: has 160 bytes: want the whole file of 4128 bytes"},
      {"cut inside the last tensor", gguf_of(gguf_info("t", {4}), 12),
       "m: is cut short: has 140 bytes: want the whole file of 144 bytes"},
      {"ends before the padding", gguf_start(1, 1) + architecture() + gguf_info("t", {4}),
       "m: is cut short: has 98 bytes: want the whole file of 144 bytes"},
  };
}

class MalformedGguf : public ::testing::TestWithParam<std::vector<Malformed> (*)()> {};

TEST_P(MalformedGguf, IsRefusedWithOneSentence) {
  for (const Malformed& malformed : GetParam()()) {
    const auto header = parse(malformed.file);
    ASSERT_FALSE(header.ok()) << malformed.name;
    EXPECT_THAT(header.error().text, StartsWith(malformed.sentence)) << malformed.name;
    EXPECT_EQ(header.error().text.find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, MalformedGguf,
                         ::testing::Values(bad_starts, bad_keys, bad_alignments, bad_tensors, bad_offsets));

// ---- odd but right

TEST(Gguf, ReadsATensorWhereItLies) {
  const auto header = parse(gguf_of(gguf_info("t", {4, 2})));
  ASSERT_TRUE(header.ok()) << header.error().text;
  ASSERT_EQ(header->tensors.size(), 1u);
  EXPECT_EQ(header->tensors[0].name, "t");
  EXPECT_EQ(header->tensors[0].format, Format::f32);
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(2, 4));  // outermost first
  EXPECT_EQ(header->tensors[0].offset, 128u);
  EXPECT_EQ(header->tensors[0].bytes, 32u);
  EXPECT_EQ(*header->metadata.get_string("general.architecture"), "x");
}

TEST(Gguf, AcceptsOddButValidFiles) {
  const auto version_2 = padded(gguf_start(1, 1, 2) + architecture() + gguf_info("t", {4})) + zeros(32);
  const std::vector<std::pair<const char*, std::string>> files = {
      {"nothing at all", gguf_start(0, 0)},
      {"version 2", version_2},
      {"last padding missing", gguf_of(gguf_info("t", {4}), 16)},
      {"trailing bytes", gguf_of(gguf_info("t", {4})) + "junkjunkjunk"},
      {"padding that is not zero",
       padded(gguf_start(1, 1) + architecture() + gguf_info("t", {4}), 32, '\xff') + zeros(32)},
      {"name of 63 bytes", gguf_of(gguf_info(std::string(63, 'n'), {4}))},
      {"name of no bytes", gguf_of(gguf_info("", {4}))},
      {"alignment 2^31 without tensors", key_file(u32_key("general.alignment", 1u << 31))},
  };
  for (const auto& [name, file] : files) {
    const auto header = parse(file);
    EXPECT_TRUE(header.ok()) << name << ": " << header.error().text;
  }
}

TEST(Gguf, KeepsAKeyWithAZeroByteWhole) {
  const auto header = parse(key_file(u32_key(std::string_view("a\0b", 3), 1)));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->metadata.find("a"), nullptr);
  EXPECT_NE(header->metadata.find(std::string_view("a\0b", 3)), nullptr);
}

TEST(Gguf, AnyByteButZeroIsTrue) {
  EXPECT_EQ(*parse(key_file(gguf_key("a", 7, "\x07")))->metadata.get_bool("a"), true);
  EXPECT_EQ(*parse(key_file(gguf_key("a", 7, std::string(1, '\0'))))->metadata.get_bool("a"), false);
}

TEST(Gguf, AnArrayMayBeEmpty) {
  const auto header = parse(key_file(gguf_key("a", 9, u32(4) + u64(0))));
  ASSERT_TRUE(header.ok());
  EXPECT_TRUE((*header->metadata.get_array<uint32_t>("a"))->empty());
}

TEST(Gguf, AlignsByItsKey) {
  for (const uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    std::string file = gguf_start(2, 1) + u32_key("general.alignment", alignment);
    file += gguf_info("a", {1}) + gguf_info("b", {1}, 0, alignment < 4 ? 4 : alignment);
    const uint64_t data = padded(file, alignment).size();
    const auto header = parse(padded(padded(file, alignment) + "aaaa", alignment) + "bbbb");
    ASSERT_TRUE(header.ok()) << header.error().text;
    EXPECT_EQ(header->tensors[0].offset, data);
    EXPECT_EQ(header->tensors[1].offset, data + (alignment < 4 ? 4 : alignment));
  }
}

TEST(Gguf, AlignmentOf2To31LeavesRoomForNoTensorInASmallFile) {
  const auto file = gguf_start(1, 1) + u32_key("general.alignment", 1u << 31) + gguf_info("t", {4}) + zeros(64);
  EXPECT_THAT(parse(file).error().text, HasSubstr("is cut short: has "));
}

TEST(Gguf, ATensorWithoutDimensionsHasOneElement) {
  const auto header = parse(gguf_of(gguf_info("t", {})));
  ASSERT_TRUE(header.ok());
  EXPECT_TRUE(header->tensors[0].shape.empty());
  EXPECT_EQ(header->tensors[0].bytes, 4u);
}

TEST(Gguf, ADimensionOfZeroHasNoBytes) {
  for (const auto& dimensions : {std::vector<int64_t>{0, 4}, std::vector<int64_t>{4, 0}}) {
    const auto header = parse(gguf_of(gguf_info("t", dimensions), 0));
    ASSERT_TRUE(header.ok()) << header.error().text;
    EXPECT_EQ(header->tensors[0].bytes, 0u);
  }
}

TEST(Gguf, UnsupportedFormatsAreListed) {
  const auto header = parse(gguf_of(gguf_info("t", {256}, 12), 144));
  ASSERT_TRUE(header.ok()) << header.error().text;
  EXPECT_EQ(header->tensors[0].format, Format::q4_k);
  EXPECT_EQ(header->tensors[0].bytes, 144u);
}

// ---- every prefix and every failing read

std::string sample_file() {
  std::string file = gguf_start(2, 4) + architecture() + u32_key("x.block_count", 2);
  file += gguf_key("tokens", 9, u32(8) + u64(3) + text("a") + text("") + text("bc"));
  file += gguf_key("scores", 9, u32(6) + u64(2) + number(0.5f) + number(-1.5f));
  file += gguf_info("a", {32}, 8) + gguf_info("b", {3, 2}, 1, 64);
  return padded(file) + zeros(64 + 12);
}

TEST(Gguf, EveryTruncationIsRefusedWithOneSentence) {
  const std::string file = sample_file();
  ASSERT_TRUE(parse(file).ok()) << parse(file).error().text;
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    const auto header = parse(std::string_view(file).substr(0, bytes));
    ASSERT_FALSE(header.ok()) << bytes;
    EXPECT_THAT(header.error().text, StartsWith("m: ")) << bytes;
  }
}

TEST(Gguf, EveryFailingReadIsOneSentence) {
  // A vocabulary longer than a read-ahead piece, so that there are several reads to fail.
  std::string strings;
  for (int i = 0; i < 20000; ++i) strings += text("token");
  const std::string file = key_file(gguf_key("tokens", 9, u32(8) + u64(20000) + strings));
  int failing = 0;
  for (;; ++failing) {
    const FailingSource source(file, failing);
    const auto header = parse_gguf(source, "m");
    if (header.ok()) break;
    EXPECT_THAT(header.error().text, StartsWith("disk: cannot read: Input/output error"));
  }
  EXPECT_GT(failing, 3);
}

TEST(Gguf, AFileCutWhileItIsReadIsOneSentence) {
  const std::string file = sample_file();
  const ShortSource source(std::string_view(file).substr(0, 100), file.size());
  EXPECT_THAT(parse_gguf(source, "m").error().text, StartsWith("disk: ends at byte 100: want "));
}

// A sparse file costs its maker nothing, so the memory allocated for it must be bounded too.
class ZeroSource final : public ByteSource {
 public:
  explicit ZeroSource(std::string start) : start_(std::move(start)) {}
  uint64_t size() const override { return uint64_t{1} << 50; }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override {
    for (size_t i = 0; i < into.size(); ++i) {
      const uint64_t at = offset + i;
      into[i] = at < start_.size() ? static_cast<std::byte>(start_[at]) : std::byte{0};
    }
    return {};
  }

 private:
  std::string start_;
};

TEST(Gguf, ALimitHoldsEvenIfTheFileHasRoom) {
  const auto parse_zeros = [](const std::string& start) { return parse_gguf(ZeroSource(start), "m").error().text; };
  EXPECT_EQ(parse_zeros(gguf_start(kMaxTensors + 1, 0)), "m: byte 24: 1048577 tensors: want 0 to 1048576");
  EXPECT_EQ(parse_zeros(gguf_start(0, kMaxKeys + 1)), "m: byte 24: 65537 keys: want 0 to 65536");
  EXPECT_EQ(parse_zeros(gguf_start(0, 1) + gguf_key("a", 9, u32(0) + u64(kMaxArrayElements + 1))),
            "m: byte 49: an array has 67108865 elements: want at most 67108864 (key a)");
  EXPECT_EQ(parse_zeros(gguf_start(0, 1) + u64(uint64_t{1} << 30)),
            "m: byte 32: a key has 1073741824 bytes: want at most 268435424");
}

// 512 MB of zeros, which a disk keeps in one block, would be 2^26 strings of 32 bytes.
TEST(Gguf, EmptyStringsAreCountedThroughAllArrays) {
  const auto parse_zeros = [](const std::string& start) { return parse_gguf(ZeroSource(start), "m").error().text; };
  const auto strings = [](uint64_t count) { return gguf_key("a", 9, u32(8) + u64(count)); };
  EXPECT_EQ(parse_zeros(gguf_start(0, 1) + strings(kMaxGgufStrings + 1)),
            "m: byte 49: an array has 4194305 elements: want at most 4194304 (key a)");
  const std::string some(8 * 1000, '\0');
  EXPECT_EQ(parse_zeros(gguf_start(0, 2) + strings(1000) + some + gguf_key("b", 9, u32(8) + u64(kMaxGgufStrings))),
            "m: byte 8074: an array has 4194304 elements: want at most 4193304 (key b)");
}

}  // namespace
}  // namespace sluice

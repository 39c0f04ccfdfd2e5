#include "checkpoint/split_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_writer.h"
#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;

// ---- names

TEST(SplitName, IsReadAndWritten) {
  const auto name = parse_split_name("models/m-q4-00002-of-00013.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "models/m-q4");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 13u);
  EXPECT_EQ(name->path(), "models/m-q4-00002-of-00013.gguf");
  EXPECT_EQ(name->path(13), "models/m-q4-00013-of-00013.gguf");
  EXPECT_EQ(parse_split_name("-00001-of-00001.gguf")->prefix, "");
}

TEST(SplitName, OtherNamesAreNone) {
  for (const char* path :
       {"", "m.gguf", "00001-of-00002.gguf", "m-00001-of-00002.bin", "m-0001-of-00002.gguf", "m-00001-of-0002.gguf",
        "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-OF-00002.gguf", "m_00001-of-00002.gguf",
        "m-0000a-of-00002.gguf", "m--0001-of-00002.gguf", "m-00001-of-000 2.gguf", "m-00001-of-00002.gguf.part"}) {
    EXPECT_FALSE(parse_split_name(path).has_value()) << path;
  }
}

// ---- files

// The three keys of a part, numbered from 0 as they are in the file.
std::string split_keys(uint16_t part, uint16_t count, int32_t tensors) {
  return gguf_key("split.no", 2, number(part)) + gguf_key("split.count", 2, number(count)) +
         gguf_key("split.tensors.count", 5, i32(tensors));
}

std::string part_of(int64_t tensors, int64_t keys, const std::string& rest, const std::string& data = {}) {
  return padded(gguf_start(tensors, keys) + rest) + data;
}

std::string floats(float value) { return number(value) + number(value) + zeros(24); }

class SplitGguf : public Folder {
 protected:
  // Two tensors in two parts, as llama.cpp's gguf-split lays them out.
  SplitGguf() {
    put_part(1, part_of(1, 4, architecture() + split_keys(0, 2, 2) + gguf_info("a", {2}), floats(1)));
    put_part(2, part_of(1, 3, split_keys(1, 2, 2) + gguf_info("b", {2}), floats(2)));
  }
  std::string part(int number, int count = 2) const { return path(cat("m-0000", number, "-of-0000", count, ".gguf")); }
  void put_part(int number, const std::string& content) const { put(file_name(part(number)), content); }
  // The error of opening the first part.
  std::string refusal() const {
    const auto checkpoint = open_checkpoint(part(1));
    return checkpoint ? "accepted" : checkpoint.error().text;
  }
};

TEST_F(SplitGguf, OpensByAnyOfItsParts) {
  for (const int given : {1, 2}) {
    const auto checkpoint = open_checkpoint(part(given));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text;
    EXPECT_EQ(checkpoint->path(), part(given));
    EXPECT_THAT(checkpoint->files(), ElementsAre(part(1), part(2)));
    EXPECT_EQ(*checkpoint->metadata().get_string("general.architecture"), "x");
    ASSERT_EQ(checkpoint->tensors().size(), 2u);
    const StoredTensor* b = checkpoint->find("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->file, 1u);
    float value = 0;
    std::memcpy(&value, b->bytes.data(), sizeof value);
    EXPECT_EQ(value, 2.0f);
  }
}

TEST_F(SplitGguf, TheFirstPartMayHoldNoTensor) {
  put_part(1, part_of(0, 4, architecture() + split_keys(0, 2, 1)));
  put_part(2, part_of(1, 3, split_keys(1, 2, 1) + gguf_info("b", {2}), floats(2)));
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(SplitGguf, AMergedFileIsWhole) {
  for (const uint16_t count : {0, 1}) {
    put("whole.gguf",
        part_of(1, 2, architecture() + gguf_key("split.count", 2, number(count)) + gguf_info("a", {2}), floats(1)));
    EXPECT_TRUE(open_checkpoint(path("whole.gguf")).ok()) << count;
  }
}

TEST_F(SplitGguf, AMissingPartIsNamed) {
  std::filesystem::remove(part(2));
  EXPECT_EQ(refusal(), part(2) + ": missing: want all 2 parts of the split model");
  EXPECT_EQ(open_checkpoint(part(1)).error().kind, ErrorKind::not_found);
}

TEST_F(SplitGguf, AMissingFirstPartIsNamed) {
  std::filesystem::remove(part(1));
  EXPECT_EQ(open_checkpoint(part(2)).error().text, part(1) + ": missing: want all 2 parts of the split model");
}

TEST_F(SplitGguf, APartUnderAnotherNameIsRefused) {
  std::filesystem::rename(part(1), path("other.gguf"));
  EXPECT_EQ(
      open_checkpoint(path("other.gguf")).error().text,
      path("other.gguf") +
          ": part 1 of 2 of a split model: want a name that ends in -00001-of-00002.gguf, by which the others are "
          "found");
  std::filesystem::rename(path("other.gguf"), part(1, 3));
  EXPECT_EQ(
      open_checkpoint(part(1, 3)).error().text,
      part(1, 3) +
          ": part 1 of 2 of a split model: want a name that ends in -00001-of-00002.gguf, by which the others are "
          "found");
}

TEST_F(SplitGguf, APartThatIsNotWhatItsNameSaysIsRefused) {
  put_part(2, part_of(1, 3, split_keys(0, 2, 2) + gguf_info("b", {2}), floats(2)));
  EXPECT_EQ(refusal(),
            part(2) +
                ": part 1 of 2 of a split model: want a name that ends in -00001-of-00002.gguf, by which the "
                "others are found");
}

TEST_F(SplitGguf, ALaterPartThatIsAWholeModelIsRefused) {
  put_part(2, part_of(1, 1, architecture() + gguf_info("b", {2}), floats(2)));
  EXPECT_EQ(refusal(), part(2) + ": key split.no is missing: want u16");
}

TEST_F(SplitGguf, TheNumberOfTensorsMustBeRight) {
  put_part(1, part_of(1, 4, architecture() + split_keys(0, 2, 3) + gguf_info("a", {2}), floats(1)));
  put_part(2, part_of(1, 3, split_keys(1, 2, 3) + gguf_info("b", {2}), floats(2)));
  EXPECT_EQ(refusal(), part(1) + ": 2 tensors in all parts: want 3, as key split.tensors.count says");
}

TEST_F(SplitGguf, PartsOfDifferentModelsAreRefused) {
  put_part(2, part_of(1, 3, split_keys(1, 2, 7) + gguf_info("b", {2}), floats(2)));
  EXPECT_EQ(refusal(), part(2) + ": key split.tensors.count is not as in the first part: want parts of one model");
  put_part(
      2, part_of(1, 4, split_keys(1, 2, 2) + string_key("general.architecture", "y") + gguf_info("b", {2}), floats(2)));
  EXPECT_EQ(refusal(), part(2) + ": key general.architecture is not as in the first part: want parts of one model");
}

// A set that is written over another one and is interrupted has parts of both.
TEST_F(SplitGguf, PartsOfTwoSetsAreRefused) {
  const auto put_ids = [&](const std::string& first, const std::string& later) {
    const auto key = [](const std::string& id) { return id.empty() ? "" : string_key("sluice.split.id", id); };
    put_part(1, part_of(1, first.empty() ? 4 : 5,
                        architecture() + split_keys(0, 2, 2) + key(first) + gguf_info("a", {2}), floats(1)));
    put_part(2, part_of(1, later.empty() ? 3 : 4, split_keys(1, 2, 2) + key(later) + gguf_info("b", {2}), floats(2)));
  };
  const std::string refused =
      part(2) + ": is of another set than m-00001-of-00002.gguf: want parts that were written together";
  put_ids("2-aa", "2-aa");
  EXPECT_EQ(refusal(), "accepted");
  put_ids("2-aa", "2-ab");
  EXPECT_EQ(refusal(), refused);
  put_ids("", "2-aa");
  EXPECT_EQ(refusal(), refused) << "written over a set of another program";
  put_ids("2-aa", "");
  EXPECT_EQ(refusal(), refused);
  put_ids("3-aa", "");
  EXPECT_EQ(refusal(), "accepted") << "merged and split again by another program";
}

TEST_F(SplitGguf, ALaterPartMayRepeatKeysAndHasItsOwnAlignment) {
  put_part(2,
           part_of(1, 5, split_keys(1, 2, 2) + architecture() + u32_key("general.alignment", 32) + gguf_info("b", {2}),
                   floats(2)));
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(SplitGguf, ATensorInTwoPartsIsRefused) {
  put_part(2, part_of(1, 3, split_keys(1, 2, 2) + gguf_info("a", {2}), floats(2)));
  EXPECT_EQ(refusal(), part(2) + ": tensor a stands in another file too");
}

TEST_F(SplitGguf, KeysOutOfRangeAreRefused) {
  put_part(1, part_of(0, 4, architecture() + split_keys(2, 2, 2)));
  EXPECT_EQ(refusal(), part(1) + ": key split.no is 2: want less than split.count, 2");
  put_part(1, part_of(0, 4, architecture() + split_keys(0, 10001, 2)));
  EXPECT_EQ(refusal(), part(1) + ": key split.count is 10001: want at most 10000");
  put_part(1, part_of(0, 4, architecture() + split_keys(0, 2, -1)));
  EXPECT_EQ(refusal(), part(1) + ": key split.tensors.count is -1: want 0 to 1048576");
}

TEST_F(SplitGguf, KeysOfAnotherTypeAreRefused) {
  put_part(1, part_of(0, 1, u32_key("split.count", 2)));
  EXPECT_EQ(refusal(), part(1) + ": key split.count is u32: want u16");
  put_part(1, part_of(0, 1, gguf_key("split.count", 2, number(uint16_t{2}))));
  EXPECT_EQ(refusal(), part(1) + ": key split.no is missing: want u16");
  put_part(
      1, part_of(0, 2, gguf_key("split.count", 2, number(uint16_t{2})) + gguf_key("split.no", 2, number(uint16_t{0}))));
  EXPECT_EQ(refusal(), part(1) + ": key split.tensors.count is missing: want i32");
}

TEST_F(SplitGguf, ABrokenPartIsNamed) {
  put_part(2, "GGUF");
  EXPECT_EQ(refusal(), part(2) + ": byte 4: the header ends inside the version: want 4 bytes, found 0");
}

// A real model cut in three, the first part with the keys alone, is the model.
TEST_F(SplitGguf, ARealModelInPartsIsTheModel) {
  const Checkpoint whole = *open_checkpoint(SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf");
  const size_t count = whole.tensors().size();
  const size_t begins[] = {0, 0, count / 2, count};
  for (uint16_t number = 0; number < 3; ++number) {
    GgufWriter writer;
    if (number == 0)
      for (const auto& [name, value] : whole.metadata().entries()) writer.add_key(name, value);
    writer.add_key("split.no", number);
    writer.add_key("split.count", uint16_t{3});
    writer.add_key("split.tensors.count", static_cast<int32_t>(count));
    const auto tensors = std::span(whole.tensors()).subspan(begins[number], begins[number + 1] - begins[number]);
    for (const StoredTensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    AtomicFile file = *AtomicFile::create(path(cat("real-0000", number + 1, "-of-00003.gguf")));
    ASSERT_TRUE(writer.begin(file).ok());
    for (const StoredTensor& tensor : tensors) ASSERT_TRUE(writer.write(tensor.bytes).ok());
    writer.finish();
    ASSERT_TRUE(file.commit().ok());
  }
  const auto joined = open_checkpoint(path("real-00002-of-00003.gguf"));
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  ASSERT_EQ(joined->tensors().size(), count);
  for (const StoredTensor& tensor : whole.tensors()) {
    const StoredTensor* found = joined->find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    ASSERT_EQ(found->bytes.size(), tensor.bytes.size());
    EXPECT_EQ(std::memcmp(found->bytes.data(), tensor.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
  }
}

using Counts = std::vector<size_t>;

TEST(SplitTensors, PartsHoldNoMoreThanTheirLimits) {
  const std::vector<uint64_t> bytes = {10, 20, 30, 5, 5, 100, 1};
  EXPECT_EQ(split_tensors(bytes, {}), Counts{7});
  EXPECT_EQ(split_tensors(bytes, {.bytes = 30}), (Counts{2, 1, 2, 1, 1}));  // 100 is alone
  EXPECT_EQ(split_tensors(bytes, {.bytes = 60}), (Counts{3, 2, 1, 1}));
  EXPECT_EQ(split_tensors(bytes, {.tensors = 3}), (Counts{3, 3, 1}));
  EXPECT_EQ(split_tensors(bytes, {.bytes = 60, .tensors = 2}), (Counts{2, 2, 1, 1, 1}));
  EXPECT_EQ(split_tensors(bytes, {.bytes = 1000, .tensors = 7}), Counts{7});
  EXPECT_EQ(split_tensors({}, {.tensors = 3}), Counts{0});
  EXPECT_EQ(split_tensors({UINT64_MAX, UINT64_MAX}, {.bytes = UINT64_MAX}), (Counts{1, 1}));
}

TEST(SplitTensors, KeysAreLlamaCpps) {
  const std::vector<GgufMetadata::Entry> keys = sluice::split_keys(SplitName{"m", 2, 3}, 70);
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys[0].name, "split.no");
  EXPECT_TRUE(keys[0].value == GgufValue(uint16_t{1}));
  EXPECT_EQ(keys[1].name, "split.count");
  EXPECT_TRUE(keys[1].value == GgufValue(uint16_t{3}));
  EXPECT_EQ(keys[2].name, "split.tensors.count");
  EXPECT_TRUE(keys[2].value == GgufValue(int32_t{70}));
}

TEST(SplitTensors, OneKeyIsOurs) {
  const GgufMetadata::Entry key = sluice::split_keys(SplitName{"m", 2, 3}, 70)[3];
  EXPECT_EQ(key.name, "sluice.split.id");
  EXPECT_TRUE(key.value == GgufValue(std::string("3-00000000000000000000000000000000")));
  ChecksumValue digest{};
  digest[0] = std::byte{0xa1};
  EXPECT_EQ(split_id(12, digest), "12-a1000000000000000000000000000000");
}

}  // namespace
}  // namespace sluice

#include "checkpoint/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/gguf.h"
#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::StartsWith;

Result<GgufHeader> parse(std::string_view file) {
  const MemorySource source("m", bytes_of(file));
  return parse_gguf(source, "m");
}

TEST(GgufWriter, WritesTheBytesOfTheFormat) {
  GgufWriter writer;
  writer.add_key("general.architecture", std::string("x"));
  writer.add_key("n", uint32_t{5});
  writer.add_key("flags", GgufArray<bool>{true, false});
  writer.add_key("tokens", GgufArray<std::string>{"a", ""});
  writer.add_tensor("a", Format::f32, {2, 3});
  writer.add_tensor("b", Format::f16, {1, 1, 5});  // outer dimensions of 1 are not written
  MemorySink sink;
  ASSERT_TRUE(writer.begin(sink).ok());
  EXPECT_EQ(writer.data_bytes(), 34u);
  ASSERT_TRUE(writer.write(bytes_of("aaaaaaaaaaaaaaaa")).ok());
  ASSERT_TRUE(writer.write(bytes_of("AAAAAAAA")).ok());
  ASSERT_TRUE(writer.write(bytes_of("bbbbbbbbbb")).ok());
  writer.finish();
  std::string wanted = gguf_start(2, 4) + architecture() + u32_key("n", 5);
  wanted += gguf_key("flags", 9, u32(7) + u64(2) + std::string("\1\0", 2));
  wanted += gguf_key("tokens", 9, u32(8) + u64(2) + text("a") + text(""));
  wanted += gguf_info("a", {3, 2}, 0, 0) + gguf_info("b", {5}, 1, 32);
  wanted = padded(padded(padded(wanted) + "aaaaaaaaaaaaaaaaAAAAAAAA") + "bbbbbbbbbb");
  EXPECT_EQ(sink.written(), wanted);
}

TEST(GgufWriter, AFileOfNothingIsStillAFile) {
  GgufWriter writer;
  MemorySink sink;
  ASSERT_TRUE(writer.begin(sink).ok());
  writer.finish();
  EXPECT_EQ(sink.written(), padded(gguf_start(0, 0)));
  EXPECT_TRUE(parse(sink.written()).ok());
}

TEST(GgufWriter, TensorsWithoutBytesNeedNoWriting) {
  GgufWriter writer;
  writer.add_tensor("none", Format::f32, {0, 4});
  writer.add_tensor("some", Format::i8, {1});
  writer.add_tensor("none at the end", Format::q8_0, {3, 0});
  MemorySink sink;
  ASSERT_TRUE(writer.begin(sink).ok());
  ASSERT_TRUE(writer.write(bytes_of("x")).ok());
  writer.finish();
  const auto header = parse(sink.written());
  ASSERT_TRUE(header.ok()) << header.error().text;
  EXPECT_EQ(header->tensors[2].name, "none at the end");
}

TEST(GgufWriter, AlignsByTheKeyItCarries) {
  GgufWriter writer;
  writer.add_key("general.alignment", uint32_t{256});
  writer.add_tensor("a", Format::i8, {1});
  writer.add_tensor("b", Format::i8, {1});
  MemorySink sink;
  ASSERT_TRUE(writer.begin(sink).ok());
  ASSERT_TRUE(writer.write(bytes_of("a")).ok());
  ASSERT_TRUE(writer.write(bytes_of("b")).ok());
  const auto header = parse(sink.written());
  ASSERT_TRUE(header.ok()) << header.error().text;
  EXPECT_EQ(header->tensors[1].offset, header->tensors[0].offset + 256);
  EXPECT_EQ(sink.written()[header->tensors[1].offset], 'b');
}

TEST(GgufWriter, UnrepresentableValuesAreRefused) {
  const auto refusal = [](auto&& declare) {
    GgufWriter writer;
    declare(writer);
    MemorySink sink;
    const Status status = writer.begin(sink);
    EXPECT_TRUE(sink.written().empty());
    return status.ok() ? "accepted" : status.error().text;
  };
  EXPECT_EQ(refusal([](GgufWriter& w) {
              w.add_key("a", uint32_t{1});
              w.add_key("a", uint32_t{2});
            }),
            "GGUF: key a stands twice");
  EXPECT_EQ(refusal([](GgufWriter& w) { w.add_key("", uint32_t{1}); }), "GGUF: a key has no name");
  EXPECT_EQ(refusal([](GgufWriter& w) { w.add_key("general.alignment", uint32_t{24}); }),
            "GGUF: general.alignment is 24: want a power of two");
  EXPECT_EQ(refusal([](GgufWriter& w) { w.add_key("general.alignment", uint64_t{32}); }),
            "GGUF: key general.alignment is u64: want u32");
  EXPECT_EQ(refusal([](GgufWriter& w) {
              w.add_tensor("t", Format::f32, {1});
              w.add_tensor("t", Format::f32, {1});
            }),
            "GGUF: tensor t stands twice");
  EXPECT_THAT(refusal([](GgufWriter& w) { w.add_tensor(std::string(64, 'n'), Format::f32, {1}); }),
              StartsWith("GGUF: tensor nnnn"));
  EXPECT_EQ(refusal([](GgufWriter& w) { w.add_tensor("t", Format::q8_0, {4, 33}); }),
            "GGUF: tensor t is q8_0 [4, 33]: want at most 4 dimensions and whole blocks of 32");
  EXPECT_EQ(refusal([](GgufWriter& w) { w.add_tensor("t", Format::f32, {2, 1, 1, 1, 1}); }),
            "GGUF: tensor t is f32 [2, 1, 1, 1, 1]: want at most 4 dimensions and whole blocks of 1");
  EXPECT_EQ(refusal([](GgufWriter& w) { w.add_tensor("t", Format::f8_e4m3, {2}); }),
            "GGUF: tensor t is f8_e4m3: want a format that GGUF has");
  EXPECT_EQ(refusal([](GgufWriter& w) {
              w.add_tensor("a", Format::i8, {INT64_MAX});
              w.add_tensor("b", Format::i8, {1});
            }),
            "GGUF: the tensors together have more than 2^63 bytes");
}

TEST(GgufWriter, AFullDiskGivesOneSentenceAnywhere) {
  for (const uint64_t room : {0u, 100u, 170u, 200u, 300u}) {
    GgufWriter writer;
    writer.add_key("general.architecture", std::string("x"));
    writer.add_tensor("t", Format::i8, {200});
    MemorySink sink(room);
    Status status = writer.begin(sink);
    for (int i = 0; status.ok() && i < 2; ++i) status = writer.write(bytes_of(std::string(100, 'x')));
    ASSERT_FALSE(status.ok()) << room;
    EXPECT_EQ(status.error().text, "out.gguf: cannot write: the disk is full");
  }
}

// ---- whatever is written reads back

// Draws for the round trips; the same every time.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }
  std::string string(uint64_t longest) {
    std::string out(below(longest + 1), '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  template <class T>
  T scalar() {
    if constexpr (std::is_same_v<T, std::string>)
      return string(20);
    else if constexpr (std::is_same_v<T, bool>)
      return below(2) == 1;
    else
      return static_cast<T>(static_cast<int64_t>(below(1u << 30)) - (1 << 29));
  }

 private:
  uint64_t state_;
};

template <class T>
GgufValue draw_typed(Draw& draw, bool array) {
  if (!array) return draw.scalar<T>();
  GgufArray<T> values;
  for (uint64_t n = draw.below(5); n > 0; --n) values.push_back(draw.scalar<T>());
  return values;
}

GgufValue draw_value(Draw& draw) {
  using Maker = GgufValue (*)(Draw&, bool);
  static constexpr Maker kMakers[] = {draw_typed<uint8_t>,  draw_typed<int8_t>,   draw_typed<uint16_t>,
                                      draw_typed<int16_t>,  draw_typed<uint32_t>, draw_typed<int32_t>,
                                      draw_typed<float>,    draw_typed<bool>,     draw_typed<std::string>,
                                      draw_typed<uint64_t>, draw_typed<int64_t>,  draw_typed<double>};
  const uint64_t kind = draw.below(std::size(kMakers));
  return kMakers[kind](draw, draw.below(2) == 1);
}

struct Drawn {
  std::vector<GgufMetadata::Entry> keys;
  std::vector<TensorEntry> tensors;
  std::vector<std::string> data;
};

Drawn draw_file(Draw& draw) {
  static constexpr Format kFormats[] = {Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::i64};
  Drawn drawn;
  for (uint64_t n = draw.below(12); n > 0; --n) drawn.keys.push_back({cat("key.", n), draw_value(draw)});
  for (uint64_t n = draw.below(6); n > 0; --n) {
    TensorEntry tensor{cat("tensor ", n, draw.string(20)), kFormats[draw.below(5)], {}, 0, 0};
    for (uint64_t d = draw.below(4); d > 0; --d) tensor.shape.push_back(static_cast<int64_t>(2 + draw.below(6)));
    tensor.shape.push_back(static_cast<int64_t>(32 * draw.below(3)));
    tensor.bytes = *tensor_bytes(tensor.format, tensor.shape);
    std::string content(tensor.bytes, '\0');
    for (char& c : content) c = static_cast<char>(draw.below(256));
    drawn.data.push_back(std::move(content));
    drawn.tensors.push_back(std::move(tensor));
  }
  return drawn;
}

// Tensor data goes out in pieces of every size.
std::string write_drawn(Draw& draw, const Drawn& drawn) {
  GgufWriter writer;
  MemorySink sink;
  for (const auto& [name, value] : drawn.keys) writer.add_key(name, value);
  for (const TensorEntry& tensor : drawn.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  EXPECT_TRUE(writer.begin(sink).ok());
  for (const std::string& content : drawn.data) {
    for (size_t at = 0; at < content.size();) {
      const size_t count = std::min<size_t>(content.size() - at, 1 + draw.below(500));
      EXPECT_TRUE(writer.write(bytes_of(std::string_view(content).substr(at, count))).ok());
      at += count;
    }
  }
  writer.finish();
  return sink.written();
}

TEST(GgufWriter, WhateverIsWrittenReadsBackEqual) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    const Drawn drawn = draw_file(draw);
    const std::string file = write_drawn(draw, drawn);
    const auto header = parse(file);
    ASSERT_TRUE(header.ok()) << seed << ": " << header.error().text;
    ASSERT_EQ(header->metadata.entries().size(), drawn.keys.size());
    for (size_t i = 0; i < drawn.keys.size(); ++i) {
      EXPECT_EQ(header->metadata.entries()[i].name, drawn.keys[i].name);
      EXPECT_EQ(header->metadata.entries()[i].value, drawn.keys[i].value);  // type and content
    }
    ASSERT_EQ(header->tensors.size(), drawn.tensors.size());
    for (size_t i = 0; i < drawn.tensors.size(); ++i) {
      const TensorEntry& tensor = header->tensors[i];
      EXPECT_EQ(tensor.name, drawn.tensors[i].name);
      EXPECT_EQ(tensor.format, drawn.tensors[i].format);
      EXPECT_EQ(tensor.shape, drawn.tensors[i].shape);
      EXPECT_EQ(tensor.offset % 32, 0u);
      EXPECT_EQ(file.substr(tensor.offset, tensor.bytes), drawn.data[i]);
    }
  }
}

}  // namespace
}  // namespace sluice

// Every weight format's snippet decodes, on the device, what decode_row() does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/kernel.h"
#include "graph/cases.h"
#include "library.h"
#include "tests/device/stored_rows.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kDecode = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let parts = (w_COLUMNS + 15u) / 16u;
  if (id.x >= rows() * parts) { return; }
  let elements = w_16(id.x / parts, id.x % parts);
  for (var i = 0u; i < 16u; i++) { store(id.x * 16u + i, elements[i / 4u][i % 4u]); }
}
)";

struct StoredRows {
  Format format{};
  uint32_t rows = 0, columns = 0;
  std::vector<std::byte> bytes{};
  std::vector<float> decoded{};  // rows of columns
};

StoredRows stored_rows(Format format, uint32_t rows, uint32_t columns) {
  StoredRows stored{.format = format, .rows = rows, .columns = columns};
  const size_t stride = row_bytes(format, columns);
  stored.bytes.resize(rows * stride);
  stored.decoded.resize(size_t{rows} * columns);
  std::vector<float> numbers(columns);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t i = 0; i < columns; ++i)
      numbers[i] = static_cast<float>(philox4x32({row, i, 0, 0}, {7, 0})[0]) * 0x1p-31f - 1.0f;
    store_row(format, numbers, row + 1, stored.bytes.data() + row * stride);
    decode_row(format, stored.bytes.data() + row * stride, stored.decoded.data() + size_t{row} * columns, columns);
  }
  return stored;
}

std::vector<float> decode_on(Host& host, const StoredRows& stored) {
  const WeightFormat& format = *weight_format(stored.format);
  const uint64_t row_words = format.row_words(stored.columns);
  std::vector<uint32_t> words = format.packed_grid();
  const size_t first = words.size();
  words.resize(first + stored.rows * row_words);
  for (uint32_t row = 0; row < stored.rows; ++row)
    format.pack_row(stored.bytes.data() + row * row_bytes(stored.format, stored.columns), stored.columns,
                    words.data() + first + row * row_words);
  const uint32_t padded = (stored.columns + 15) / 16 * 16;
  std::vector<float> decoded(size_t{stored.rows} * padded);

  Kernel kernel{.name = "decode", .body = kDecode};
  kernel.bindings = {{.name = "memory", .slot = {SlotKind::memory}, .access = Access::read_write},
                     {.name = "w", .slot = {SlotKind::weight}, .element = kFours}};
  kernel.snippets = {weight_snippet(stored.format, stored.columns, "w")};
  const PipelineId pipeline = host.pipeline(pipeline_text(kernel));
  const BufferId memory = host.buffer(decoded.size() * 4, BufferUse::storage);
  const BufferId weight = host.buffer(words.size() * 4, BufferUse::storage);
  const BufferId uniforms = host.buffer(512, BufferUse::uniform);
  const BufferId counts = host.buffer(sizeof(StepCounts), BufferUse::uniform);
  StepCounts step;
  step.rows.fill(stored.rows);
  host.upload(weight, 0, std::as_bytes(std::span(words)));
  host.upload(counts, 0, std::as_bytes(std::span(&step, 1)));
  const BoundRange storage[] = {{memory, 0, decoded.size() * 4}, {weight, 0, words.size() * 4}};
  const BindingId binding = host.bind(pipeline, storage, {uniforms, 0, 256}, {counts, 0, sizeof step});
  EXPECT_TRUE(host.settle());
  CommandStream commands;
  const auto groups = static_cast<uint32_t>((decoded.size() / 16 + kThreads - 1) / kThreads);
  commands.dispatch(pipeline, binding, 0, groups, 1);
  const HostRead read{memory, 0, std::as_writable_bytes(std::span(decoded))};
  const HostTicket ticket = host.submit(commands, {&read, 1});
  std::optional<Status> ended;
  while (!(ended = host.poll(ticket))) {
  }
  EXPECT_TRUE(*ended) << (*ended ? "" : ended->error().text);
  host.drop_binding(binding);
  for (const BufferId buffer : {memory, weight, uniforms, counts}) host.drop_buffer(buffer);
  return decoded;
}

// Where a format adds a minimum, the GPU may round once less: by half a unit of the larger.
bool may_fuse(Format format) {
  const std::array kMoved = {Format::q4_1, Format::q5_1, Format::q2_k, Format::q4_k, Format::q5_k};
  return std::find(kMoved.begin(), kMoved.end(), format) != kMoved.end();
}

void expect_decoded(Host& host, Format format, uint32_t columns) {
  SCOPED_TRACE(testing::Message() << format_name(format) << ", " << columns << " columns");
  const StoredRows stored = stored_rows(format, 3, columns);
  const std::vector<float> found = decode_on(host, stored);
  const uint32_t padded = (columns + 15) / 16 * 16;
  for (uint32_t row = 0; row < stored.rows; ++row) {
    const float* expected = stored.decoded.data() + size_t{row} * columns;
    float largest = 0;
    for (uint32_t i = 0; i < columns; ++i) largest = std::max(largest, std::fabs(expected[i]));
    const float may = may_fuse(format) ? largest * 0x1p-22f : 0.0f;
    for (uint32_t i = 0; i < padded; ++i)
      ASSERT_LE(std::fabs(found[size_t{row} * padded + i] - (i < columns ? expected[i] : 0.0f)), may)
          << "row " << row << ", element " << i << ": found " << found[size_t{row} * padded + i] << ": want "
          << (i < columns ? expected[i] : 0.0f);
  }
}

TEST(WebGpuWeights, EveryFormatIsDecodedAsByTheProcessor) {
  const std::string library = webgpu_test_library();
  if (library.empty()) GTEST_SKIP() << "no library or no GPU here";
  auto factory = find_dawn({library});
  ASSERT_TRUE(factory) << factory.error().text;
  auto host = (*factory)->open();
  ASSERT_TRUE(host) << host.error().text;
  for (const Format format : {Format::f32, Format::f16, Format::bf16}) expect_decoded(**host, format, 35);
  // Three blocks: several, and lists that end within a word.
  for (const Format format : block_formats()) expect_decoded(**host, format, 3 * format_info(format).block_elements);
}

// Elements in words by column, scales column by column, groups in any order; more rows than are decoded at once.
TEST(WebGpuWeights, RowsThatLieInGridsArePackedAsTheirNumbers) {
  constexpr uint32_t kRows = 40, kColumns = 32, kFirst = 5, kCount = 19;
  std::vector<uint32_t> words(kColumns / 8 * kRows);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i) * 2654435761u;
  std::vector<float> scales(2 * kRows);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 1.0f + static_cast<float>(i);
  std::vector<uint32_t> groups(kColumns);
  for (uint32_t i = 0; i < kColumns; ++i) groups[i] = i % 3 == 0;
  TensorSource source{.shape = {1, kRows, kColumns},
                      .format = Format::u4,
                      .bytes = std::as_bytes(std::span(words)).data(),
                      .row_stride = kColumns / 2,
                      .owner = nullptr};
  source.grid = NumberGrid{.word = NumberGrid::Word::of_columns,
                           .bits = 4,
                           .row_step = 4,
                           .column_step = 4 * kRows,
                           .bytes = words.size() * 4};
  WeightPart part;
  part.role = PartRole::factor;
  part.format = Format::f32;
  part.bytes = std::as_bytes(std::span(scales)).data();
  part.block_columns = kColumns / 2;
  part.grid = NumberGrid{.row_step = 4, .column_step = 4 * kRows, .bytes = scales.size() * 4};
  part.groups = {std::make_shared<const std::vector<uint32_t>>(groups)};
  source.parts.push_back(part);

  const WeightFormat& floats = *weight_format(Format::f32);
  const uint64_t row_words = floats.row_words(kColumns);
  std::vector<uint32_t> packed(kCount * row_words), wanted(row_words);
  pack_weight_rows(source, {.first = kFirst, .count = kCount}, row_words, packed.data());
  for (uint32_t row = 0; row < kCount; ++row) {
    std::vector<float> numbers;
    for (uint32_t i = 0; i < kColumns; ++i) {
      const uint32_t q = words[i / 8 * kRows + kFirst + row] >> i % 8 * 4 & 15;
      numbers.push_back(static_cast<float>(q) * scales[groups[i] * kRows + kFirst + row]);
    }
    floats.pack_row(std::as_bytes(std::span(numbers)).data(), kColumns, wanted.data());
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), packed.begin() + static_cast<ptrdiff_t>(row * row_words)))
        << row;
  }
}

TEST(WebGpuWeights, EveryFormatOfTheProcessorIsKnown) {
  for (const FormatInfo& info : all_formats())
    EXPECT_EQ(weight_format(info.format) != nullptr, info.decodable) << info.name;
}

}  // namespace
}  // namespace sluice::webgpu

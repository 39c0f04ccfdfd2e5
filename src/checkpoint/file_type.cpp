#include "checkpoint/file_type.h"

#include <algorithm>
#include <array>

#include "checkpoint/mlx_quantization.h"
#include "checkpoint/quantization_config.h"

namespace sluice {

namespace {

struct FileType {
  uint32_t id;
  std::string_view name;
};
constexpr FileType kFileTypes[] = {
    {0, "f32"},     {1, "f16"},     {2, "q4_0"},       {3, "q4_1"},    {7, "q8_0"},     {8, "q5_0"},
    {9, "q5_1"},    {10, "q2_k"},   {11, "q3_k_s"},    {12, "q3_k_m"}, {13, "q3_k_l"},  {14, "q4_k_s"},
    {15, "q4_k_m"}, {16, "q5_k_s"}, {17, "q5_k_m"},    {18, "q6_k"},   {19, "iq2_xxs"}, {20, "iq2_xs"},
    {21, "q2_k_s"}, {22, "iq3_xs"}, {23, "iq3_xxs"},   {24, "iq1_s"},  {25, "iq4_nl"},  {26, "iq3_s"},
    {27, "iq3_m"},  {28, "iq2_s"},  {29, "iq2_m"},     {30, "iq4_xs"}, {31, "iq1_m"},   {32, "bf16"},
    {36, "tq1_0"},  {37, "tq2_0"},  {38, "mxfp4_moe"}, {39, "nvfp4"},  {40, "q1_0"},    {41, "q2_0"},
};

// The label with which the names of MLX models usually end.
std::string mlx_label(const Checkpoint& checkpoint) {
  const Json* config = checkpoint.document("config.json");
  if (config == nullptr) return "";
  const auto quantization = MlxQuantization::read(*config, "config.json");
  if (!quantization || !*quantization) return "";
  const MlxPacking& usual = (*quantization)->usual();
  return usual.offsets ? cat("mlx-", usual.bits, "bit") : cat("mlx-", usual.mode);
}

// The tool that packed the integers, and their bits, if config.json has them.
std::string packed_label(const Checkpoint& checkpoint) {
  const Json* config = checkpoint.document("config.json");
  if (config == nullptr) return "";
  const auto quantization = QuantizationConfig::read(*config, "config.json");
  if (!quantization) return "";
  return quantization->bits == 0 ? quantization->method : cat(quantization->method, "-", quantization->bits, "bit");
}

}  // namespace

std::optional<std::string_view> file_type_name(uint32_t id) {
  const auto found = std::ranges::find(kFileTypes, id, &FileType::id);
  return found == std::end(kFileTypes) ? std::nullopt : std::optional(found->name);
}

std::optional<uint32_t> file_type_by_name(std::string_view name) {
  const auto found = std::ranges::find(kFileTypes, name, &FileType::name);
  return found == std::end(kFileTypes) ? std::nullopt : std::optional(found->id);
}

std::string format_label(const Checkpoint& checkpoint) {
  const auto id = checkpoint.metadata().get_u32(kFileTypeKey);
  if (const auto name = id ? file_type_name(*id) : std::nullopt) return std::string(*name);
  std::array<uint64_t, kFormats> bytes{};
  for (const StoredTensor& tensor : checkpoint.tensors())
    bytes[static_cast<size_t>(tensor.format)] += tensor.bytes.size();
  const auto most = std::ranges::max_element(bytes);
  const auto format = static_cast<Format>(most - bytes.begin());
  if (format == Format::u32) {
    std::string label = mlx_label(checkpoint);
    if (!label.empty()) return label;
  }
  if (format == Format::i32 || format == Format::u8) {
    std::string label = packed_label(checkpoint);
    if (!label.empty()) return label;
  }
  return *most == 0 ? std::string() : format_name(format);
}

}  // namespace sluice

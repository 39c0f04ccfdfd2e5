#include "checkpoint/quantization_config.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kMethods[] = {
    "compressed-tensors", "modelopt", "modelopt_fp4", "fp8", "fbgemm_fp8", "mxfp4", "gptq", "awq", "auto-round"};
constexpr const char* kWantMethods = "compressed-tensors, modelopt, fp8, mxfp4, gptq, awq, auto-round or MLX";
constexpr std::string_view kFormats[] = {
    "dense",           "pack-quantized",       "int-quantized",        "float-quantized",
    "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
    "mixed-precision"};
constexpr const char* kWantFormats = "pack-, int-, float-, naive-, mxfp8-, mxfp4-pack- or nvfp4-pack-quantized";

constexpr int64_t kMostBits = 32;

const Json* member(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

// The member's text in lower case; empty if there is none.
std::string text_of(const Json& object, const char* name) {
  const Json* found = member(object, name);
  std::string text = found != nullptr && found->is_string() ? found->as_string() : std::string();
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool is_true(const Json& object, const char* name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

const Json* find_config(const Json& config) {
  if (const Json* found = member(config, "quantization_config")) return found;
  const Json* text = member(config, "text_config");
  return text == nullptr ? nullptr : member(*text, "quantization_config");
}

Error not_read(const std::string& where, const std::string& what, const std::string& wanted) {
  return error(ErrorKind::unsupported, where, ": weights are quantised ", printable(what), ": want ", wanted);
}

Status check_format(const Json& object, const std::string& where) {
  const std::string format = text_of(object, "format");
  if (format.empty() || std::ranges::find(kFormats, format) != std::end(kFormats)) return {};
  return not_read(where, cat("by compressed-tensors as ", format), kWantFormats);
}

// Rotations of weights are part of the stored weights already. Rotations of activations are not supported.
Status check_transforms(const Json& quantization, const std::string& where) {
  const Json* transforms = member(quantization, "transform_config");
  const Json* groups = transforms == nullptr ? nullptr : member(*transforms, "config_groups");
  if (groups == nullptr || !groups->is_object()) return {};
  for (const auto& [name, group] : groups->as_object()) {
    const Json* places = member(group, "apply");
    if (places == nullptr || !places->is_array()) continue;
    for (const Json& place : places->as_array()) {
      const std::string location = text_of(place, "location");
      if (location != "weight_input" && location != "weight_output")
        return not_read(where, cat("with a transform of ", location), "no transform but of weights");
    }
  }
  return {};
}

Status check_compressed_tensors(const Json& quantization, const std::string& where) {
  TRY_STATUS(check_format(quantization, where));
  if (const Json* groups = member(quantization, "config_groups"); groups != nullptr && groups->is_object())
    for (const auto& [name, group] : groups->as_object()) TRY_STATUS(check_format(group, where));
  if (const Json* sparsity = member(quantization, "sparsity_config")) {
    const std::string format = text_of(*sparsity, "format");
    if (!format.empty() && format != "dense")
      return not_read(where, cat("by compressed-tensors as ", format), "weights that are not sparse");
  }
  return check_transforms(quantization, where);
}

Result<WordLayout> gptq_layout(const Json& quantization, const std::string& where) {
  const std::string format =
      is_true(quantization, "is_marlin_format") ? "marlin" : text_of(quantization, "checkpoint_format");
  if (!format.empty() && format != "gptq" && format != "gptq_v2")
    return not_read(where, cat("by gptq as ", format), "checkpoint_format gptq or gptq_v2");
  return WordLayout{
      .kind = WordLayout::Kind::gptq, .symmetric = is_true(quantization, "sym"), .zeros_less_one = format != "gptq_v2"};
}

Result<WordLayout> awq_layout(const Json& quantization, const std::string& where) {
  const std::string version = text_of(quantization, "version");
  if (!version.empty() && version != "gemm") return not_read(where, cat("by awq as ", version), "version gemm");
  return WordLayout{.kind = WordLayout::Kind::awq};
}

Result<WordLayout> auto_round_layout(const Json& quantization, const std::string& where) {
  const std::string packing = text_of(quantization, "packing_format");
  const bool gptq = packing == "auto_round:auto_gptq" || packing == "auto_gptq";
  if (packing == "auto_round:auto_awq" || packing == "auto_awq") return WordLayout{.kind = WordLayout::Kind::awq};
  if (gptq && is_true(quantization, "sym")) return WordLayout{.kind = WordLayout::Kind::gptq, .symmetric = true};
  return not_read(
      where, cat("by auto-round as ", packing.empty() ? "no packing_format" : packing, gptq ? " with sym false" : ""),
      "auto_round:auto_gptq with sym true, or auto_round:auto_awq");
}

}  // namespace

Result<QuantizationConfig> QuantizationConfig::read(const Json& config, const std::string& where) {
  QuantizationConfig read;
  const Json* found = find_config(config);
  if (found == nullptr || !found->is_object()) return read;
  read.method = text_of(*found, "quant_method");
  if (read.method.empty() && (is_true(*found, "load_in_4bit") || is_true(*found, "load_in_8bit")))
    read.method = "bitsandbytes";
  if (read.method.empty()) return read;
  if (std::ranges::find(kMethods, read.method) == std::end(kMethods))
    return not_read(where, cat("by ", read.method), kWantMethods);
  if (const Json* bits = member(*found, "bits"); bits != nullptr && bits->is_integer())
    read.bits = static_cast<uint32_t>(std::clamp<int64_t>(bits->as_integer(), 0, kMostBits));
  if (read.method == "compressed-tensors")
    TRY_STATUS(check_compressed_tensors(*found, where));
  else if (read.method == "gptq")
    TRY_ASSIGN(read.words, gptq_layout(*found, where));
  else if (read.method == "awq")
    TRY_ASSIGN(read.words, awq_layout(*found, where));
  else if (read.method == "auto-round")
    TRY_ASSIGN(read.words, auto_round_layout(*found, where));
  return read;
}

}  // namespace sluice

#include "model/adapters/peft_config.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace sluice {
namespace {

constexpr double kMostAlpha = 1e9;

// Fields that are null, false, empty or absent in plain LoRA, and what each of them asks for.
constexpr std::pair<const char*, const char*> kBeyondLora[] = {
    {"use_dora", "DoRA"},
    {"modules_to_save", "whole modules (modules_to_save)"},
    {"trainable_token_indices", "changes of single tokens (trainable_token_indices)"},
    {"fan_in_fan_out", "transposed weights (fan_in_fan_out)"},
    {"lora_bias", "biases (lora_bias)"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "BD-LoRA"},
    {"arrow_config", "Arrow routing"},
    {"layer_replication", "replicated layers (layer_replication)"},
    {"alora_invocation_tokens", "activated LoRA (alora_invocation_tokens)"},
    {"monteclora_config", "MonteCLoRA"},
    {"velora_config", "VeLoRA"},
    {"kasa_config", "KaSA"},
};

bool is_set(const Json* field) {
  if (field == nullptr || field->is_null()) return false;
  if (field->is_bool()) return field->as_bool();
  if (field->is_array()) return !field->as_array().empty();
  if (field->is_object()) return !field->as_object().empty();
  return true;
}

bool is_alpha(const Json& value) {
  return value.is_number() && value.as_number() > -kMostAlpha && value.as_number() < kMostAlpha;
}

}  // namespace

Result<PeftConfig> PeftConfig::read(const Json& json, const std::string& where) {
  if (!json.is_object()) return error(ErrorKind::corrupt, where, ": is no JSON object: want a configuration of PEFT");
  const Json* const type = json.find("peft_type");
  const std::string kind = type != nullptr && type->is_string() ? type->as_string() : "";
  if (kind != "LORA")
    return error(ErrorKind::unsupported, where, ": peft_type is ", kind.empty() ? "missing" : printable(kind),
                 ": want LORA");
  for (const auto& [field, what] : kBeyondLora)
    if (is_set(json.find(field))) return error(ErrorKind::unsupported, where, ": asks for ", what, ": want plain LoRA");
  const Json* const bias = json.find("bias");
  if (is_set(bias) && !(bias->is_string() && bias->as_string() == "none"))
    return error(ErrorKind::unsupported, where, ": asks for trained biases (bias): want plain LoRA");
  PeftConfig config;
  const Json* const alpha = json.find("lora_alpha");
  if (alpha == nullptr || !is_alpha(*alpha))
    return error(ErrorKind::corrupt, where, ": lora_alpha is missing or no number: want the scale of the factors");
  config.alpha_ = alpha->as_number();
  config.root_ = is_set(json.find("use_rslora"));
  const Json* const patterns = json.find("alpha_pattern");
  if (!is_set(patterns)) return config;
  if (!patterns->is_object())
    return error(ErrorKind::corrupt, where, ": alpha_pattern is no object: want numbers by name");
  for (const auto& [key, value] : patterns->as_object()) {
    if (!is_alpha(value))
      return error(ErrorKind::corrupt, where, ": alpha_pattern of ", printable(key), " is no number: want one");
    Result<NamePattern> end = NamePattern::parse(cat("(.*\\.)?(", key, ")")), whole = NamePattern::parse(key);
    if (!end || !whole)
      return error(ErrorKind::unsupported, where, ": alpha_pattern: ", end ? whole.error().text : end.error().text);
    config.alphas_.push_back({*std::move(end), *std::move(whole), value.as_number()});
  }
  return config;
}

float PeftConfig::scale(const std::string& name, uint32_t rank, bool is_parameter) const {
  const auto named = std::ranges::find_if(
      alphas_, [&](const Alpha& one) { return (is_parameter ? one.whole : one.end).matches(name); });
  const double alpha = named == alphas_.end() ? alpha_ : named->alpha;
  return static_cast<float>(alpha / (root_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank)));
}

}  // namespace sluice

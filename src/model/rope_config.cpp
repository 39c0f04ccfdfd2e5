#include "model/rope_config.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace sluice {
namespace {

constexpr double kMostFactor = 1e6, kLeastBeta = 1e-6, kMostBeta = 1e6, kLeastScale = 1e-6, kMostScale = 1e6;
constexpr const char* kYarn = "yarn";

// Values that only one dialect has.
struct Spelling {
  float attention_factor = 0, mscale = 0, mscale_all_dim = 0;  // Hugging Face; 0: missing
  bool truncate = true;                                        //
  float attn_factor = 1, ext_factor = 1, log_multiplier = 0;   // GGUF
};

// A factor or an original context of 0 means that the field is missing.
std::vector<ConfigField> fields(Yarn& yarn, Spelling& s, const RopeNames& names) {
  // Hugging Face, GGUF, target, range, value when missing
  return {
      {names.factor, "rope.scaling.factor", &yarn.factor, 1, kMostFactor, 0},
      {names.original, "rope.scaling.original_context_length", &yarn.original_context, 1, kMaxContext, 0},
      {names.beta_fast, "rope.scaling.yarn_beta_fast", &yarn.beta_fast, kLeastBeta, kMostBeta, 32},
      {names.beta_slow, "rope.scaling.yarn_beta_slow", &yarn.beta_slow, kLeastBeta, kMostBeta, 1},
      {names.attention_factor, nullptr, &s.attention_factor, 0, kMostScale, 0},
      {names.mscale, nullptr, &s.mscale, 0, kMostScale, 0},
      {names.mscale_all_dim, nullptr, &s.mscale_all_dim, 0, kMostScale, 0},
      {names.truncate, nullptr, &s.truncate, 0, 1, 1},
      {nullptr, "rope.scaling.attn_factor", &s.attn_factor, kLeastScale, kMostScale, 1},
      {nullptr, "rope.scaling.yarn_ext_factor", &s.ext_factor, -1, kMostScale, 1},
      {nullptr, "rope.scaling.yarn_log_multiplier", &s.log_multiplier, 0, kMostScale, 0},
  };
}

// Without a type, llama.cpp divides all frequencies by the factor. That method is refused here.
Status check_linear_factor(const ConfigReader& reader, const std::string& type) {
  float factor = 1;
  const ConfigField field = {nullptr, "rope.scaling.factor", &factor, 0, kMostFactor, 1};
  TRY_STATUS(reader.read({&field, 1}, 0));
  if (factor == 0 || factor == 1) return {};
  return reader.refuse(ErrorKind::unsupported, "rope.scaling.type",
                       cat(type.empty() ? "is missing" : cat("is ", printable(type)), " with a factor of ", factor,
                           ": want yarn or none"));
}

Result<bool> asks_for_yarn(const ConfigReader& reader, const RopeNames& names) {
  if (reader.is_gguf()) return gguf_asks_for_yarn(reader);
  TRY(const std::string type, rope_scaling_type(reader, names));
  if (type == kYarn) return true;
  // "mrope" splits the pairs into sections for time, height and width. For text all sections turn alike.
  if (type.empty() || type == "default" || type == "mrope") return false;
  return reader.refuse(ErrorKind::unsupported, names.type, cat("is \"", printable(type), "\": want default or yarn"));
}

Status check(const ConfigReader& reader, const std::vector<ConfigField>& table, float theta, Yarn& yarn, Spelling& s) {
  const auto refuse = [&](ConfigField::Target target, const auto&... text) {
    return reader.complain(table, target, cat(text...));
  };
  if (yarn.factor == 0) return refuse(&yarn.factor, "is missing: want how many times the context is stretched");
  if (yarn.original_context == 0)
    return refuse(&yarn.original_context, "is missing: want the context before it was stretched");
  if (yarn.beta_fast < yarn.beta_slow)
    return refuse(&yarn.beta_fast, "is ", yarn.beta_fast, ": want at least ", yarn.beta_slow, ", the slow one");
  if (!s.truncate) return refuse(&s.truncate, "is false: want true");
  if (s.ext_factor >= 0 && s.ext_factor != 1) return refuse(&s.ext_factor, "is ", s.ext_factor, ": want 1");
  if (s.log_multiplier != 0) return refuse(&s.log_multiplier, "is ", s.log_multiplier, ": want none");
  if (!(theta > 1)) return refuse(&yarn.factor, "is ", yarn.factor, " with a base of ", theta, ": want a base above 1");
  return {};
}

double magnitude_of(const Yarn& yarn, const Spelling& s, bool gguf) {
  const auto factor = static_cast<double>(yarn.factor);
  if (gguf) return yarn_magnitude(factor) * static_cast<double>(s.attn_factor);
  if (s.attention_factor != 0) return static_cast<double>(s.attention_factor);
  const auto mscale = static_cast<double>(s.mscale), all = static_cast<double>(s.mscale_all_dim);
  return mscale != 0 && all != 0 ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all)
                                 : yarn_magnitude(factor);
}

}  // namespace

const RopeNames& rope_names(const ConfigReader& reader) {
  static constexpr RopeNames kOld = {"rope_scaling",
                                     "rope_theta",
                                     "partial_rotary_factor",
                                     "rope_scaling.rope_type",
                                     "rope_scaling.type",
                                     "rope_scaling.factor",
                                     "rope_scaling.original_max_position_embeddings",
                                     "rope_scaling.beta_fast",
                                     "rope_scaling.beta_slow",
                                     "rope_scaling.attention_factor",
                                     "rope_scaling.mscale",
                                     "rope_scaling.mscale_all_dim",
                                     "rope_scaling.truncate"};
  static constexpr RopeNames kNew = {"rope_parameters",
                                     "rope_parameters.rope_theta",
                                     "rope_parameters.partial_rotary_factor",
                                     "rope_parameters.rope_type",
                                     "rope_parameters.type",
                                     "rope_parameters.factor",
                                     "rope_parameters.original_max_position_embeddings",
                                     "rope_parameters.beta_fast",
                                     "rope_parameters.beta_slow",
                                     "rope_parameters.attention_factor",
                                     "rope_parameters.mscale",
                                     "rope_parameters.mscale_all_dim",
                                     "rope_parameters.truncate"};
  const Json* parameters = reader.member(kNew.parameters);
  return parameters != nullptr && !parameters->is_null() ? kNew : kOld;
}

Result<std::string> rope_scaling_type(const ConfigReader& reader, const RopeNames& names) {
  if (reader.is_gguf()) {
    const GgufValue* value = reader.key("rope.scaling.type");
    if (value == nullptr) return std::string();
    if (const auto* type = std::get_if<std::string>(value)) return *type;
    return reader.refuse(ErrorKind::invalid, "rope.scaling.type", cat("is ", type_text(*value), ": want a string"));
  }
  for (const char* path : {names.type, names.old_type}) {
    const Json* value = reader.member(path);
    if (value == nullptr || value->is_null()) continue;
    if (value->is_string()) return value->as_string();
    return reader.refuse(ErrorKind::invalid, path, cat("is ", printable(write_json(*value)), ": want a string"));
  }
  return std::string();
}

Result<bool> gguf_asks_for_yarn(const ConfigReader& reader) {
  TRY(const std::string type, rope_scaling_type(reader, rope_names(reader)));
  if (type == kYarn) return true;
  if (type == "none") return false;
  if (!type.empty() && type != "linear")
    return reader.refuse(ErrorKind::unsupported, "rope.scaling.type",
                         cat("is ", printable(type), ": want yarn or none"));
  TRY_STATUS(check_linear_factor(reader, type));
  return false;
}

Result<float> read_yarn(const ConfigReader& reader, const RopeNames& names, float theta, uint32_t& context,
                        Yarn& yarn) {
  yarn = {};
  TRY(const bool asked, asks_for_yarn(reader, names));
  Spelling spelling;
  if (!asked && !reader.is_gguf()) return 1.0f;
  Yarn found;
  const std::vector<ConfigField> table = fields(found, spelling, names);
  if (!asked) {  // GGUF's attn_factor for cos and sin applies without YaRN, too
    const auto own = std::ranges::find(table, ConfigField::Target(&spelling.attn_factor), &ConfigField::target);
    TRY_STATUS(reader.read({&*own, 1}, 0));
    return spelling.attn_factor;
  }
  TRY_STATUS(reader.read(table, 0));
  if (reader.is_gguf() && found.factor == 0) found.factor = 1;
  if (reader.is_gguf() && found.original_context == 0) found.original_context = context;
  TRY_STATUS(check(reader, table, theta, found, spelling));
  yarn = found;
  const double reach = static_cast<double>(yarn.factor) * yarn.original_context;
  context = std::max(context, static_cast<uint32_t>(std::min<double>(reach, kMaxContext)));
  return static_cast<float>(magnitude_of(yarn, spelling, reader.is_gguf()));
}

std::vector<GgufMetadata::Entry> yarn_keys(Yarn yarn, float magnitude, const std::string& architecture) {
  const double usual = yarn_magnitude(static_cast<double>(yarn.factor));
  const bool is_usual = magnitude == static_cast<float>(usual);
  const auto name = [&](const char* key) { return cat(architecture, ".rope.scaling.", key); };
  std::vector<GgufMetadata::Entry> keys;
  if (yarn.factor > 1)
    keys = {{name("type"), std::string(kYarn)},
            {name("factor"), yarn.factor},
            {name("original_context_length"), yarn.original_context},
            {name("yarn_beta_fast"), yarn.beta_fast},
            {name("yarn_beta_slow"), yarn.beta_slow}};
  if (!is_usual) keys.push_back({name("attn_factor"), static_cast<float>(static_cast<double>(magnitude) / usual)});
  return keys;
}

std::string yarn_text(const Yarn& yarn) {
  return cat("YaRN, ", yarn.factor, " times ", yarn.original_context, " positions");
}

}  // namespace sluice

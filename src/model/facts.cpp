#include "model/facts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/limits.h"

namespace sluice {
namespace {

// One sampling default with its names in generation_config.json and GGUF. Files may write -1 for "off"; here it is 0.
struct SamplingField {
  const char* hugging_face;
  const char* gguf;
  double least, most;
  std::optional<float> SamplingDefaults::* real = nullptr;
  std::optional<uint32_t> SamplingDefaults::* whole = nullptr;
};

constexpr SamplingField kSampling[] = {
    {"top_k", "general.sampling.top_k", 0, kMaxVocabulary, nullptr, &SamplingDefaults::top_k},
    {"top_p", "general.sampling.top_p", 0, 1, &SamplingDefaults::top_p},
    {"min_p", "general.sampling.min_p", 0, 1, &SamplingDefaults::min_p},
    {"temperature", "general.sampling.temp", 0, 100, &SamplingDefaults::temperature},
    {"repetition_penalty", "general.sampling.penalty_repeat", 0.01, 100, &SamplingDefaults::repeat_penalty},
};

std::optional<double> scalar(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>) return static_cast<double>(v);
        return std::nullopt;
      },
      value);
}

// A sampling default is advice only, so a meaningless one is noted and the model still opens.
void store_sampling(const SamplingField& field, const std::string& where, const char* name, std::optional<double> value,
                    ModelFacts& facts) {
  const bool whole = field.whole != nullptr;
  if (whole && value == -1) value = 0;
  if (!value || !(*value >= field.least && *value <= field.most) || (whole && std::floor(*value) != *value)) {
    facts.ignored.push_back(cat(where, ": ", name, " is ", value ? sampling_text(*value) : "no number", ": want ",
                                sampling_text(field.least), " to ", sampling_text(field.most)));
  } else if (whole) {
    facts.sampling.*field.whole = static_cast<uint32_t>(*value);
  } else {
    facts.sampling.*field.real = static_cast<float>(*value);
  }
}

void read_sampling_json(const Json& config, const std::string& where, ModelFacts& facts) {
  for (const SamplingField& field : kSampling) {
    const Json* value = config.find(field.hugging_face);
    if (value == nullptr || value->is_null()) continue;
    const auto number = value->is_number() ? std::optional(value->as_number()) : std::nullopt;
    store_sampling(field, where, field.hugging_face, number, facts);
  }
  const Json* do_sample = config.find("do_sample");
  if (do_sample != nullptr && do_sample->is_bool() && !do_sample->as_bool()) facts.sampling.temperature = 0.0f;
}

void read_sampling_gguf(const Checkpoint& checkpoint, ModelFacts& facts) {
  for (const SamplingField& field : kSampling) {
    const GgufValue* value = checkpoint.key(field.gguf);
    if (value != nullptr) store_sampling(field, checkpoint.path(), field.gguf, scalar(*value), facts);
  }
}

// A token outside the vocabulary is never sampled, so it is left out of the list.
void add_token(std::vector<int32_t>& ids, double id, const ModelFacts& facts) {
  if (!(id >= 0 && id < facts.vocabulary) || std::floor(id) != id) return;
  const auto token = static_cast<int32_t>(id);
  if (std::ranges::find(ids, token) == ids.end()) ids.push_back(token);
}

Status check_listed(size_t count, const std::string& where, std::string_view name) {
  if (count <= kMaxListedTokens) return {};
  return error(ErrorKind::unsupported, where, ": ", name, " has ", count, " entries: want at most ", kMaxListedTokens);
}

// Adds the ids of member `name`, which is one id or a list.
Status add_tokens(std::vector<int32_t>& ids, const Json& config, const char* name, const std::string& where,
                  const ModelFacts& facts) {
  const Json* value = config.find(name);
  if (value == nullptr) return {};
  if (value->is_number()) add_token(ids, value->as_number(), facts);
  if (!value->is_array()) return {};
  TRY_STATUS(check_listed(value->as_array().size(), where, name));
  for (const Json& id : value->as_array())
    if (id.is_number()) add_token(ids, id.as_number(), facts);
  return {};
}

Status add_tokens(std::vector<int32_t>& ids, const Checkpoint& checkpoint, const std::string& key,
                  const ModelFacts& facts) {
  const GgufValue* value = checkpoint.key(key);
  if (value == nullptr) return {};
  if (const auto id = scalar(*value)) add_token(ids, *id, facts);
  TRY_STATUS(check_listed(element_count(*value), checkpoint.path(), key));
  if (const auto* list = std::get_if<GgufArray<int32_t>>(value))
    for (const int32_t id : *list) add_token(ids, id, facts);
  if (const auto* list = std::get_if<GgufArray<uint32_t>>(value))
    for (const uint32_t id : *list) add_token(ids, id, facts);
  return {};
}

Status read_hugging_face(const Checkpoint& checkpoint, ModelFacts& facts) {
  std::string_view folder = checkpoint.path();
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  facts.name = file_name(folder);
  const Json* generation = checkpoint.document("generation_config.json");
  if (generation != nullptr) {
    const std::string where = join_path(checkpoint.path(), "generation_config.json");
    read_sampling_json(*generation, where, facts);
    TRY_STATUS(add_tokens(facts.eos_ids, *generation, "eos_token_id", where, facts));
    TRY_STATUS(add_tokens(facts.suppress_tokens, *generation, "suppress_tokens", where, facts));
  }
  if (!facts.eos_ids.empty()) return {};
  return add_tokens(facts.eos_ids, *checkpoint.document("config.json"), "eos_token_id",
                    join_path(checkpoint.path(), "config.json"), facts);
}

Status read_gguf(const Checkpoint& checkpoint, ModelFacts& facts) {
  const auto text = [&](const char* key) {
    const GgufValue* value = checkpoint.key(key);
    const auto* string = value == nullptr ? nullptr : std::get_if<std::string>(value);
    return string == nullptr ? std::string() : *string;
  };
  facts.name = text("general.name");
  if (facts.name.empty()) facts.name = file_name(checkpoint.path());
  if (const std::string label = text("general.size_label"); !label.empty()) facts.size_label = label;
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id", "eos_token_ids"})
    TRY_STATUS(add_tokens(facts.eos_ids, checkpoint, cat("tokenizer.ggml.", key), facts));
  TRY_STATUS(add_tokens(facts.suppress_tokens, checkpoint, "tokenizer.ggml.suppress_tokens", facts));
  read_sampling_gguf(checkpoint, facts);
  return {};
}

// A count with at least two digits: "8.5M", "27B".
std::string rounded(uint64_t count) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  const auto value = static_cast<double>(count);
  const auto* unit = std::ranges::find_if(kUnits, [&](const auto& u) { return value > u.first; });
  if (unit == std::end(kUnits)) unit = std::end(kUnits) - 1;
  const double scaled = value / unit->first;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f%s", scaled < 9.5 ? 1 : 0, scaled, unit->second);
  return text;
}

// The size label counts one expert: "8x356K" has eight experts, and one expert with all shared weights has 356 thousand
// parameters.
void count_parameters(const BoundWeights& weights, uint64_t made, ModelFacts& facts) {
  uint64_t shared = made, expert = 0;
  uint32_t experts = 0;
  for (const BoundWeight& weight : weights.all()) {
    const WeightShape& shape = weight.row.shape;
    const uint64_t one = uint64_t{shape.rows} * shape.columns;
    const bool is_experts = weight.row.name.find(".experts.") != std::string::npos;
    facts.parameters += one * shape.experts;
    (is_experts ? expert : shared) += is_experts ? one : one * shape.experts;
    if (is_experts) experts = std::max(experts, shape.experts);
  }
  facts.size_label = experts > 1 ? cat(experts, "x", rounded(shared + expert)) : rounded(shared);
}

}  // namespace

std::string sampling_text(double value) {
  const bool whole = std::floor(value) == value && std::fabs(value) < 1e15;
  return whole ? cat(static_cast<int64_t>(value)) : format_number(value);
}

Status read_facts(const Checkpoint& checkpoint, const BoundWeights& weights, uint64_t made, ModelFacts& facts) {
  count_parameters(weights, made, facts);
  return checkpoint.dialect() == Dialect::gguf ? read_gguf(checkpoint, facts) : read_hugging_face(checkpoint, facts);
}

std::vector<GgufMetadata::Entry> gguf_sampling(const SamplingDefaults& sampling) {
  std::vector<GgufMetadata::Entry> keys;
  for (const SamplingField& field : kSampling) {
    if (field.whole != nullptr && (sampling.*field.whole).has_value())
      keys.push_back({field.gguf, static_cast<int32_t>(*(sampling.*field.whole))});
    if (field.real != nullptr && (sampling.*field.real).has_value())
      keys.push_back({field.gguf, *(sampling.*field.real)});
  }
  return keys;
}

}  // namespace sluice

#include "engine/sampling_json.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace sluice {
namespace {

struct NumberRow {
  const char* name;
  float SamplingSettings::* member;
};
constexpr NumberRow kNumbers[] = {
    {"temperature", &SamplingSettings::temperature},
    {"top_p", &SamplingSettings::top_p},
    {"min_p", &SamplingSettings::min_p},
    {"repeat_penalty", &SamplingSettings::repeat_penalty},
    {"presence_penalty", &SamplingSettings::presence_penalty},
    {"frequency_penalty", &SamplingSettings::frequency_penalty},
};
constexpr const char* kTopK = "top_k";
constexpr const char* kWindow = "repeat_last_n";
constexpr const char* kSeed = "seed";
constexpr const char* kBias = "logit_bias";
constexpr const char* kForbidden = "-inf";  // no JSON number

Error wrong(const std::string& where, const char* name, const Json& value, const char* want) {
  return error(ErrorKind::invalid, where, ": ", name, " is ", printable(write_json(value)), ": want ", want);
}

// Through text: 0.95 as a float is 0.949999988079071 as a double.
Json number_json(float value) { return parse_number(cat(double{value})).value_or(0); }

Json bias_json(const SamplingSettings& settings) {
  Json::Array list;
  for (const auto& [token, bias] : settings.logit_bias) {
    const bool forbidden = bias == -std::numeric_limits<float>::infinity();
    list.emplace_back(Json::Array{int64_t{token}, forbidden ? Json(kForbidden) : number_json(bias)});
  }
  return list;
}

// A whole number of at least -1, where -1 stands for `all`.
Status read_count(const Json& object, const std::string& where, const char* name, uint32_t all, uint32_t& into) {
  const Json* value = object.find(name);
  if (value == nullptr) return {};
  if (!value->is_integer() || value->as_integer() < -1 || value->as_integer() > std::numeric_limits<int32_t>::max())
    return wrong(where, name, *value, "a whole number");
  into = value->as_integer() == -1 ? all : static_cast<uint32_t>(value->as_integer());
  return {};
}

Status read_bias(const Json& object, const std::string& where, SamplingSettings& settings) {
  const Json* list = object.find(kBias);
  if (list == nullptr) return {};
  constexpr const char* kWant = "a list of [token, number or \"-inf\"]";
  settings.logit_bias.clear();
  for (const Json& pair : list->is_array() ? list->as_array() : Json::Array{*list}) {
    const bool two = pair.is_array() && pair.as_array().size() == 2;
    const Json token = two ? pair.as_array()[0] : Json(), bias = two ? pair.as_array()[1] : Json();
    const bool forbidden = bias.is_string() && bias.as_string() == kForbidden;
    const bool fits = token.is_integer() && token.as_integer() >= 0 && token.as_integer() < (int64_t{1} << 31);
    if (!fits || !(forbidden || bias.is_number())) return wrong(where, kBias, pair, kWant);
    settings.logit_bias.emplace_back(
        static_cast<int32_t>(token.as_integer()),
        forbidden ? -std::numeric_limits<float>::infinity() : static_cast<float>(bias.as_number()));
  }
  return {};
}

}  // namespace

SamplingSettings sampling_of_file(const SamplingDefaults& defaults) {
  SamplingSettings settings;
  settings.temperature = defaults.temperature.value_or(settings.temperature);
  settings.top_k = defaults.top_k.value_or(settings.top_k);
  settings.top_p = defaults.top_p.value_or(settings.top_p);
  settings.min_p = defaults.min_p.value_or(settings.min_p);
  settings.repeat_penalty = defaults.repeat_penalty.value_or(settings.repeat_penalty);
  return settings;
}

Json sampling_json(const SamplingSettings& settings) {
  Json::Object object;
  for (const NumberRow& row : kNumbers) object.emplace_back(row.name, number_json(settings.*row.member));
  object.emplace_back(kTopK, int64_t{settings.top_k});
  object.emplace_back(kWindow, int64_t{settings.penalty_window});
  object.emplace_back(kSeed, static_cast<int64_t>(settings.seed));
  object.emplace_back(kBias, bias_json(settings));
  return object;
}

Status read_sampling(const Json& object, const std::string& where, uint32_t vocabulary, SamplingSettings& settings) {
  SamplingSettings read = settings;
  for (const NumberRow& row : kNumbers) {
    if (const Json* value = object.find(row.name)) {
      if (!value->is_number()) return wrong(where, row.name, *value, "a number");
      read.*row.member = static_cast<float>(value->as_number());
    }
  }
  TRY_STATUS(read_count(object, where, kTopK, 0, read.top_k));
  TRY_STATUS(read_count(object, where, kWindow, kMaxPenaltyWindow, read.penalty_window));
  if (const Json* seed = object.find(kSeed)) {
    if (!seed->is_integer()) return wrong(where, kSeed, *seed, "a whole number");
    read.seed = static_cast<uint64_t>(seed->as_integer());
  }
  TRY_STATUS(read_bias(object, where, read));
  if (const Status fits = check_sampling(read, vocabulary); !fits)
    return error(fits.error().kind, where, ": ", fits.error().text);
  settings = std::move(read);
  return {};
}

bool is_sampling_name(std::string_view name) {
  const auto is = [&](const NumberRow& row) { return row.name == name; };
  return std::any_of(std::begin(kNumbers), std::end(kNumbers), is) || name == kTopK || name == kWindow ||
         name == kSeed || name == kBias;
}

}  // namespace sluice

#include "serve/sampling_fields.h"

#include <algorithm>
#include <cstdint>

namespace sluice {
namespace {

constexpr double kMostBias = 100;

Checked take_biases(Fields& fields, const ServedModel& model, SamplingSettings& sampling) {
  TRY(const Json* biases, fields.object("logit_bias"));
  if (biases == nullptr) return Fine{};
  if (biases->as_object().size() > kMaxLogitBiases)
    return refuse("logit_bias", "logit_bias names ", biases->as_object().size(), " tokens: want at most ",
                  kMaxLogitBiases);
  const int64_t vocabulary = model.text->tokenizer.size();
  for (const auto& [name, value] : biases->as_object()) {
    const std::optional<int64_t> token = parse_integer(name);
    if (!token || *token < 0 || *token >= vocabulary)
      return refuse("logit_bias", "logit_bias names token ", printable(name), ": want one from 0 to ", vocabulary - 1);
    if (!value.is_number() || !(value.as_number() >= -kMostBias && value.as_number() <= kMostBias))
      return fields.wrong("logit_bias", value, "numbers from -100 to 100");
    sampling.logit_bias.emplace_back(static_cast<int32_t>(*token), static_cast<float>(value.as_number()));
  }
  return Fine{};
}

}  // namespace

TurnSettings first_settings(const ServedModel& model) {
  TurnSettings settings;
  settings.sampling = model.sampling;
  settings.adapters = model.adapters;
  settings.stops = model.stops;
  return settings;
}

Checked take_priority(Fields& fields, AnswerRequest& request) {
  TRY(const std::optional<int64_t> priority, fields.integer("priority", -kMostPriority, kMostPriority));
  request.priority = static_cast<int32_t>(priority.value_or(0));
  return Fine{};
}

Checked take_log_probs(Fields& fields, TurnSettings& settings) {
  TRY(const std::optional<bool> wanted, fields.boolean("logprobs"));
  TRY(const std::optional<int64_t> top, fields.integer("top_logprobs", 0, kCandidates));
  if (wanted.value_or(false)) {
    settings.log_probs = LogProbs::answer;
    settings.sampling.candidates = static_cast<uint32_t>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    return refuse("top_logprobs", "top_logprobs without logprobs: want logprobs true");
  }
  return Fine{};
}

Checked take_number(Fields& fields, std::string_view name, double least, double most, float& into) {
  TRY(const std::optional<double> value, fields.number(name, least, most));
  if (value) into = static_cast<float>(*value);
  return Fine{};
}

Checked take_stops(Fields& fields, std::string_view name, TurnSettings& settings) {
  TRY(std::vector<std::string> stops, fields.texts(name, kMostStops));
  for (std::string& stop : stops) {
    if (stop.empty()) return refuse(fields.path(name), fields.path(name), ": a stop string is empty: want some text");
    settings.stops.push_back(std::move(stop));
  }
  return Fine{};
}

Checked read_openai_sampling(Fields& fields, const ServedModel& model, TurnSettings& settings) {
  SamplingSettings& sampling = settings.sampling;
  TRY_STATUS(take_number(fields, "temperature", 0, 2, sampling.temperature));
  TRY_STATUS(take_number(fields, "top_p", 0, 1, sampling.top_p));
  TRY_STATUS(take_number(fields, "min_p", 0, 1, sampling.min_p));
  TRY_STATUS(take_number(fields, "presence_penalty", -2, 2, sampling.presence_penalty));
  TRY_STATUS(take_number(fields, "frequency_penalty", -2, 2, sampling.frequency_penalty));
  TRY_STATUS(take_number(fields, "repeat_penalty", 0.01, 100, sampling.repeat_penalty));
  TRY_STATUS(take_number(fields, "repetition_penalty", 0.01, 100, sampling.repeat_penalty));
  TRY(const std::optional<int64_t> top_k, fields.integer("top_k", -1, 1 << 30));
  if (top_k) sampling.top_k = static_cast<uint32_t>(std::max<int64_t>(*top_k, 0));
  TRY(const std::optional<int64_t> seed, fields.integer("seed", INT64_MIN, INT64_MAX));
  if (seed) sampling.seed = static_cast<uint64_t>(*seed);
  TRY_STATUS(take_biases(fields, model, sampling));
  TRY_STATUS(fields.refuse_any({"min_tokens", "stop_token_ids", "ignore_eos", "bad_words"}, "is not supported"));
  return take_stops(fields, "stop", settings);
}

}  // namespace sluice

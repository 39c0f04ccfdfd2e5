#include "app/run/sampling_options.h"

#include <limits>

#include "base/text.h"

namespace sluice {
namespace {

// "123=-2.5" or "123=-inf".
std::optional<std::pair<int32_t, float>> parse_bias(std::string_view text, uint32_t vocabulary) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto token = parse_integer(text.substr(0, equals));
  if (!token || *token < 0 || *token >= int64_t{vocabulary}) return std::nullopt;
  if (text.substr(equals + 1) == "-inf")
    return std::pair(static_cast<int32_t>(*token), -std::numeric_limits<float>::infinity());
  const auto value = parse_number(text.substr(equals + 1));
  if (!value || !(*value >= -1e30 && *value <= 1e30)) return std::nullopt;
  return std::pair(static_cast<int32_t>(*token), static_cast<float>(*value));
}

}  // namespace

std::vector<OptionSpec> sampling_options() {
  constexpr auto kNumber = OptionKind::number;
  constexpr auto kInteger = OptionKind::integer;
  return {
      {.name = "--greedy", .help = "always the likeliest token: --temperature 0"},
      {.name = "--temperature",
       .aliases = "--temp",
       .argument = "T",
       .kind = kNumber,
       .help = "flattens (above 1) or sharpens (below) the choice; the file's, else 1",
       .most = 100},
      {.name = "--top-k",
       .argument = "K",
       .kind = kInteger,
       .help = "only the K likeliest tokens, 0 for all; the file's, else 0",
       .most = 1e9},
      {.name = "--top-p",
       .argument = "P",
       .kind = kNumber,
       .help = "only the likeliest tokens that together reach this probability; the file's, else 1",
       .most = 1},
      {.name = "--min-p",
       .argument = "P",
       .kind = kNumber,
       .help = "only tokens at least this likely beside the likeliest; the file's, else 0",
       .most = 1},
      {.name = "--repeat-penalty",
       .argument = "X",
       .kind = kNumber,
       .help = "makes tokens of the last 64 less likely, 1 for not; the file's, else 1",
       .least = 1e-3,
       .most = 1e3},
      {.name = "--presence-penalty",
       .argument = "X",
       .kind = kNumber,
       .fallback = "0",
       .help = "subtracted once from the logit of every token among the last 64",
       .least = -1e3,
       .most = 1e3},
      {.name = "--frequency-penalty",
       .argument = "X",
       .kind = kNumber,
       .fallback = "0",
       .help = "the same, once for each time that the token occurs",
       .least = -1e3,
       .most = 1e3},
      {.name = "--logit-bias",
       .argument = "ID=X",
       .kind = OptionKind::text,
       .help = "added to a token's logit, -inf to forbid it; may be given several times",
       .repeated = true},
      {.name = "--seed",
       .aliases = "-s",
       .argument = "N",
       .kind = kInteger,
       .fallback = "0",
       .help = "the seed of the random numbers: the same seed gives the same answer"},
  };
}

Status check_bias(const std::string& text) {
  if (parse_bias(text, std::numeric_limits<int32_t>::max())) return {};
  return error(ErrorKind::invalid, "--logit-bias is ", printable(text),
               ": want ID=X, a token's id and a number or -inf");
}

Result<SamplingSettings> sampling_settings(const Arguments& arguments, uint32_t vocabulary, SamplingSettings settings) {
  const auto take = [&](const char* name, float& into) {
    if (arguments.given(name)) into = static_cast<float>(arguments.number(name));
  };
  take("--temperature", settings.temperature);
  take("--top-p", settings.top_p);
  take("--min-p", settings.min_p);
  take("--repeat-penalty", settings.repeat_penalty);
  take("--presence-penalty", settings.presence_penalty);
  take("--frequency-penalty", settings.frequency_penalty);
  if (arguments.given("--top-k")) settings.top_k = static_cast<uint32_t>(arguments.integer("--top-k"));
  if (arguments.flag("--greedy")) settings.temperature = 0;
  if (arguments.given("--seed")) settings.seed = static_cast<uint64_t>(arguments.integer("--seed"));
  for (const std::string& text : arguments.all("--logit-bias")) {
    const auto bias = parse_bias(text, vocabulary);
    if (!bias) {
      return error(ErrorKind::invalid, "--logit-bias is ", printable(text), ": want ID=X, an id below ", vocabulary,
                   " and a number or -inf");
    }
    settings.logit_bias.push_back(*bias);
  }
  return settings;
}

}  // namespace sluice

#include "app/files/catalogue.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/text.h"

namespace sluice {
namespace {

constexpr double kBesideWeights = 0.8e9;  // bytes of cache, activations and program at the usual context

// Sizes are those that Ollama's registry names for its default of 4 bits.
constexpr KnownModel kModels[] = {
    {"gemma4:e2b", "Gemma 4 E2B", 7.2, "pictures, sounds"},
    {"gemma4:e4b", "Gemma 4 E4B", 9.6, "pictures, sounds"},
    {"gemma4:26b", "Gemma 4 26B-A4B", 18, "pictures; experts: less memory with --memory"},
    {"gemma4:31b", "Gemma 4 31B", 20, "pictures"},
    {"qwen3.5:0.8b", "Qwen3.5 0.8B", 1.0, "pictures"},
    {"qwen3.5:2b", "Qwen3.5 2B", 2.7, "pictures"},
    {"qwen3.5:4b", "Qwen3.5 4B", 3.4, "pictures"},
    {"qwen3.5:9b", "Qwen3.5 9B", 6.6, "pictures"},
    {"qwen3.5:27b", "Qwen3.5 27B", 17, "pictures"},
    {"qwen3.5:35b", "Qwen3.5 35B-A3B", 24, "pictures; experts: less memory with --memory"},
    {"qwen3.5:122b", "Qwen3.5 122B-A10B", 81, "pictures; experts: less memory with --memory"},
    {"qwen3.6:27b", "Qwen3.6 27B", 17, "pictures"},
    {"qwen3.6:35b", "Qwen3.6 35B-A3B", 24, "pictures; experts: less memory with --memory"},
    {"deepseek-v3:671b", "DeepSeek-V3 671B", 404, "experts: less memory with --memory"},
    {"deepseek-r1:671b", "DeepSeek-R1 671B", 404, "experts: less memory with --memory"},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

std::vector<KnownModel> matching_models(std::string_view pattern) {
  const std::string wanted = lower(pattern);
  std::vector<KnownModel> found;
  std::ranges::copy_if(kModels, std::back_inserter(found), [&](const KnownModel& model) {
    return lower(model.name).find(wanted) != std::string::npos || lower(model.title).find(wanted) != std::string::npos;
  });
  return found;
}

uint64_t likely_memory(const KnownModel& model) {
  return static_cast<uint64_t>(model.gigabytes * 1e9 + kBesideWeights);
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const KnownModel& model : kModels) names.emplace_back(model.name);
  return names;
}

}  // namespace sluice

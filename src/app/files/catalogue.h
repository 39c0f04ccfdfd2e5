// Models that can be fetched and are known to run: a table that was right on its date. `sluice list --online` shows it,
// and a mistyped name is compared with it. Nothing here asks a network.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr const char* kCatalogueDate = "November 2026";

struct KnownModel {
  const char* name;   // for sluice pull and sluice run: Ollama's
  const char* title;  // "Gemma 4 E2B"
  double gigabytes;   // to fetch
  const char* about;  // what it can take besides text, and what is special
};
std::span<const KnownModel> known_models();
// Those with `pattern` in their name or title, in any case; all of "".
std::vector<KnownModel> matching_models(std::string_view pattern);
// Host memory that it takes with a short context: its weights, its cache and the program.
uint64_t likely_memory(const KnownModel& model);
std::vector<std::string> known_model_names();

}  // namespace sluice

#include "serve/served_model.h"

#include <algorithm>

#include "base/text.h"

namespace sluice {

// Ollama's clients leave out or add ":latest".
bool ServedModel::answers_to(std::string_view name) const {
  constexpr std::string_view kLatest = ":latest";
  const std::string_view plain = ends_with(name, kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
  return std::ranges::any_of(names, [&](const std::string& own) { return own == name || own == plain; });
}

}  // namespace sluice

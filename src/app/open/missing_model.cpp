#include "app/open/missing_model.h"

#include <algorithm>
#include <vector>

#include "app/cli/environment.h"
#include "app/files/catalogue.h"
#include "base/suggest.h"
#include "base/text.h"
#include "checkpoint/places/model_folder.h"
#include "checkpoint/places/ollama_name.h"
#include "checkpoint/places/places.h"

namespace sluice {

bool can_be_pulled(const std::string& name) {
  if (name.empty() || std::string_view("/.~").find(name.front()) != std::string_view::npos) return false;
  if (ends_with(name, ".gguf") && std::ranges::count(name, '/') < 2) return false;
  return parse_ollama_name(name) || parse_repository_name(name);
}

Error missing_model(const std::string& name, const Error& why) {
  if (!can_be_pulled(name)) {
    return error(why.kind, why.text, ": sluice list shows the models that are here, sluice pull ",
                 known_models().front().name, " fetches one");
  }
  std::vector<std::string> known = known_model_names();
  const auto is_online = [online = known](const std::string& one) {
    return std::ranges::find(online, one) != online.end();
  };
  for (const ListedModel& model : list_models(machine_places())) known.push_back(model.name);
  const std::string near = nearest_word(name, known);
  const bool other = !near.empty() && near != name && why.text.find(near) == std::string::npos;
  const std::string& pulled = other && is_online(near) ? near : name;
  return error(why.kind, why.text, ": ", other ? cat("did you mean ", printable(near, 200), "? ") : "", "sluice pull ",
               printable(pulled, 200), pulled == name ? " looks for it online" : " fetches it");
}

}  // namespace sluice

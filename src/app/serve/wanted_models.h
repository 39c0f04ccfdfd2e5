// The models that a command line of `sluice serve` names, or the file of --models: a JSON object whose member "models"
// lists objects. docs/server.md describes their members.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/open/adapters.h"
#include "base/result.h"
#include "serve/keep_alive.h"

namespace sluice {

// An adapter under whose name a model is served, too: "NAME:ADAPTER".
struct ServedAdapter {
  std::string name;
  NamedAdapter adapter;
};

struct WantedModel {
  std::string model = {};               // as find_model() takes it
  std::vector<std::string> names = {};  // that requests use; the first one is shown
  Arguments arguments = {};             // the command's, with the model's own
  std::vector<NamedAdapter> always = {};
  std::vector<ServedAdapter> named = {};
  bool is_pinned = false;
  KeepAlive keep_alive = kKeepLoaded;
};

// At least one. Without any the demo.
Result<std::vector<WantedModel>> wanted_models(const Arguments& arguments);

}  // namespace sluice

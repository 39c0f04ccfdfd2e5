// The models that a command line of `sluice serve` names, or the file of --models: a JSON object whose member "models"
// lists objects. docs/server.md describes their members.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/open/adapters.h"
#include "base/result.h"
#include "checkpoint/model_files.h"
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
  // Of a model that is offered because it lies in a store; none: its files are those that find_model() finds.
  std::optional<ModelFiles> stored = {};
};

// Those that the arguments name. Without any the demo, or with --store none.
Result<std::vector<WantedModel>> wanted_models(const Arguments& arguments);
// A model of a store, as it is offered beside those.
Result<WantedModel> stored_model(const ModelFiles& files, const Arguments& arguments);
// All models of the stores whose files are whole, except those with names that `named` have.
Result<std::vector<WantedModel>> stored_models(const Arguments& arguments, const std::vector<WantedModel>& named);

}  // namespace sluice

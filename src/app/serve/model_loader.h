// ModelLoader: one of the server's models, from its files to an engine, as often as it is loaded. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/console.h"
#include "app/open/open.h"
#include "app/serve/wanted_models.h"
#include "base/result.h"
#include "checkpoint/model_files.h"
#include "engine/plan/tower_room.h"
#include "engine/state/state_store.h"
#include "serve/model_shelf.h"

namespace sluice {

class ModelLoader {
 public:
  // `machine` and `console` outlive this.
  static Result<std::unique_ptr<ModelLoader>> create(WantedModel wanted, std::string version, Machine& machine,
                                                     Console& console);

  // The model's card and those of its adapters, from the files' headers and texts alone.
  Result<std::vector<ModelCard>> cards();
  // As ModelRecipe::load. With `requests`, leaves room for media_request_bytes(), too, and shows progress.
  Result<std::unique_ptr<LoadedModel>> load(bool may_lack_room, bool requests = false);

  const WantedModel& wanted() const { return wanted_; }
  const ModelFiles& files() const { return files_; }
  // Towers of the model, once cards() or load() has read it: none if there is no room for them.
  const std::vector<TowerRoom>& towers() const { return towers_; }
  // Where the model's states are kept; null: nowhere. Its own, because models search at the same time; their folder and
  // its limit are one.
  StateStore* states() const { return states_.get(); }

 private:
  ModelLoader(WantedModel wanted, std::string version, ModelFiles files, Machine& machine, Console& console)
      : wanted_(std::move(wanted)),
        version_(std::move(version)),
        files_(std::move(files)),
        machine_(&machine),
        console_(&console),
        states_(open_state_store(wanted_.arguments)) {}

  Result<std::vector<AdapterSum>> open_sums(const Model& model) const;
  std::vector<ModelCard> cards_of(const Model& model, const TextParts& text, const StoreSettings& stored) const;
  void note_text_bytes(uint64_t anonymous_before);

  WantedModel wanted_;
  std::string version_;
  ModelFiles files_;
  Machine* machine_;
  Console* console_;
  std::unique_ptr<StateStore> states_;
  std::vector<TowerRoom> towers_;
  bool lacks_room_ = false;  // pictures and sounds found no room even while no other model could go
  uint64_t text_bytes_ = 0;  // of texts, tables and adapters of the open model, the most that was measured
};

// The recipe shares the loader.
ModelRecipe recipe_of(const std::shared_ptr<ModelLoader>& loader, std::vector<ModelCard> cards);

// The facts by which --device auto chooses a device for a model.
Result<DeviceNeeds> needs_of_server(const WantedModel& wanted);

}  // namespace sluice

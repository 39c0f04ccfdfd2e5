// ModelShelf: the models of a server by their names, of which those are loaded that requests ask for.
//
// Loaded models share one budget. One that does not fit takes the place of the model that was used longest ago, if it
// is idle and not pinned; a model that somebody uses stays. An idle model also goes when its time is over
// (KeepAlive). No answer depends on what else is loaded.
//
// Models come and go while the server runs. Each has a number, which no other model ever gets. A model that has gone is
// no longer found by its names; who uses it goes on, and its number stays good until then.
//
// load(), warm_up(), unload_expired() and unload_all() are for the thread that steps the engines, the rest for any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/open_model.h"
#include "serve/keep_alive.h"
#include "serve/model_card.h"
#include "serve/refusal.h"
#include "serve/served_model.h"

namespace sluice {

struct LoadedModel {
  std::shared_ptr<ChatModel> opened;
  std::vector<Reservation> held;      // of the budget, beside the engine's
  std::vector<ServedModel> variants;  // those of the recipe's cards, in their order
};

// A model, and the same model with adapters, which share its weights.
struct ModelRecipe {
  std::vector<ModelCard> cards;  // the model, then "NAME:ADAPTER" for each adapter
  bool is_pinned = false;        // loaded at start, and never unloaded
  bool is_stored = false;        // offered because it lies in a store: clients may delete it there
  KeepAlive keep_alive = kKeepLoaded;
  uint32_t running = 1;  // answers that the engine makes at once
  // `may_lack_room`: a model is loaded even where pictures and sounds find no room.
  std::function<Result<std::unique_ptr<LoadedModel>>(bool may_lack_room)> load;
};

// One of the names' models.
struct ModelPlace {
  size_t recipe = 0, variant = 0;
};

struct PlacedCard {
  ModelPlace place;
  std::shared_ptr<const ModelCard> card;  // never null
};

class ModelShelf;

// While it lives the model stays loaded.
class ModelUse {
 public:
  ModelUse(ModelShelf& shelf, ModelPlace place, const LoadedModel& loaded)
      : shelf_(&shelf), place_(place), loaded_(&loaded) {}
  ~ModelUse();
  ModelUse(const ModelUse&) = delete;
  ModelUse& operator=(const ModelUse&) = delete;

  const ServedModel& model() const { return loaded_->variants[place_.variant]; }
  Engine& engine() const { return *loaded_->opened->engine; }
  size_t recipe() const { return place_.recipe; }
  // For how long the model stays after its last use; none: for the recipe's time. The newest call counts.
  void keep(std::optional<KeepAlive> keep_alive);

 private:
  ModelShelf* shelf_;
  ModelPlace place_;
  const LoadedModel* loaded_;
};

class ModelShelf {
 public:
  using Clock = std::chrono::system_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  explicit ModelShelf(std::vector<ModelRecipe> recipes);
  ModelShelf(const ModelShelf&) = delete;
  ModelShelf& operator=(const ModelShelf&) = delete;

  // Offers a model under names that no other has. Its number.
  size_t add(ModelRecipe recipe);
  // The model is unloaded when nobody uses it any more.
  void remove(size_t recipe);

  // Null: it has gone.
  std::shared_ptr<const ModelRecipe> recipe(size_t number) const;
  std::shared_ptr<const ModelCard> card(ModelPlace place) const;
  // All that are found by name, in the order of their coming.
  std::vector<PlacedCard> cards() const;
  std::optional<ModelPlace> find(std::string_view name) const;
  std::shared_ptr<const ModelCard> card(std::string_view name) const;  // null: none is named so
  // 404, with the name that was probably meant.
  Refusal unknown(const std::string& name) const;

  // Null: it is not loaded.
  std::shared_ptr<ModelUse> use_loaded(ModelPlace place);
  // None: it is not loaded, or its time is over. A model in use would end its time as if it were idle from now on.
  std::optional<Clock::time_point> expires_at(size_t recipe) const;
  // Called on any thread when a model may have to go.
  void on_change(std::function<void()> tell) { tell_ = std::move(tell); }

  // A model that was loaded elsewhere, before any other call.
  void put(size_t recipe, std::unique_ptr<LoadedModel> loaded);
  // Loads the model if it is not loaded. A failure is forgotten: the next call tries again.
  Outcome<std::shared_ptr<ModelUse>> load(ModelPlace place);
  // Unloads models whose time is over. Returns the next such time.
  Clock::time_point unload_expired();
  void unload_all();
  // Of loaded models, whether one has more to prefetch while nothing runs.
  bool warm_up();

 private:
  friend class ModelUse;
  struct Slot {
    std::shared_ptr<const ModelRecipe> recipe;
    std::unique_ptr<LoadedModel> loaded;
    uint32_t uses = 0;
    Clock::time_point last_used;
    KeepAlive keep_alive = kKeepLoaded;
    bool has_gone = false;  // the engines' thread drops the slot

    bool may_go() const { return loaded != nullptr && !recipe->is_pinned; }
    Clock::time_point end(Clock::time_point idle_since) const;
  };

  void release(size_t recipe);
  bool unload_least_used();
  bool others_may_go(size_t recipe) const;

  std::function<void()> tell_ = [] {};
  mutable std::mutex mutex_;      // guards what follows
  std::map<size_t, Slot> slots_;  // by number
  size_t next_ = 0;
};

}  // namespace sluice

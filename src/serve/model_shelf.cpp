#include "serve/model_shelf.h"

#include <algorithm>

#include "base/suggest.h"
#include "base/text.h"

namespace sluice {

ModelUse::~ModelUse() { shelf_->release(place_.recipe); }

void ModelUse::keep(std::optional<KeepAlive> keep_alive) {
  const std::lock_guard lock(shelf_->mutex_);
  shelf_->slots_[place_.recipe].keep_alive = keep_alive.value_or(shelf_->recipes_[place_.recipe].keep_alive);
}

ModelShelf::ModelShelf(std::vector<ModelRecipe> recipes) : recipes_(std::move(recipes)), slots_(recipes_.size()) {}

std::vector<ModelPlace> ModelShelf::places() const {
  std::vector<ModelPlace> all;
  for (size_t i = 0; i < recipes_.size(); ++i)
    for (size_t variant = 0; variant < recipes_[i].cards.size(); ++variant) all.push_back({i, variant});
  return all;
}

std::optional<ModelPlace> ModelShelf::find(std::string_view name) const {
  for (const ModelPlace place : places())
    if (card(place).answers_to(name)) return place;
  return std::nullopt;
}

Refusal ModelShelf::unknown(const std::string& name) const {
  std::vector<std::string> known;
  for (const ModelPlace place : places()) known.insert(known.end(), card(place).names.begin(), card(place).names.end());
  const std::string near = nearest_word(name, known);
  std::string want = cat(": did you mean ", printable(near), '?');
  if (near.empty()) {
    want = places().size() == 1 ? ": want " : ": want one of ";
    for (const ModelPlace place : places())
      want += cat(place.recipe + place.variant == 0 ? "" : ", ", printable(card(place).id()));
  }
  return {.status = 404,
          .message = cat("model ", printable(name), " not found", want.substr(0, 1000)),
          .param = "model",
          .code = "model_not_found"};
}

std::shared_ptr<ModelUse> ModelShelf::use_loaded(ModelPlace place) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[place.recipe];
  if (slot.loaded == nullptr) return nullptr;
  ++slot.uses;
  return std::make_shared<ModelUse>(*this, place, *slot.loaded);
}

void ModelShelf::release(size_t recipe) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[recipe];
    --slot.uses;
    slot.last_used = Clock::now();
  }
  tell_();
}

ModelShelf::Clock::time_point ModelShelf::end_of(size_t recipe, Clock::time_point idle_since) const {
  const KeepAlive keep = slots_[recipe].keep_alive;
  if (recipes_[recipe].is_pinned || keep < KeepAlive(0)) return kNever;
  return idle_since + std::chrono::duration_cast<Clock::duration>(keep);
}

std::optional<ModelShelf::Clock::time_point> ModelShelf::expires_at(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  const Slot& slot = slots_[recipe];
  if (slot.loaded == nullptr) return std::nullopt;
  const Clock::time_point now = Clock::now();
  if (slot.uses > 0) return end_of(recipe, now);
  const Clock::time_point end = end_of(recipe, slot.last_used);
  return end > now ? std::optional(end) : std::nullopt;
}

bool ModelShelf::others_may_go(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < slots_.size(); ++i)
    if (i != recipe && slots_[i].loaded != nullptr && !recipes_[i].is_pinned) return true;
  return false;
}

bool ModelShelf::unload_least_used() {
  std::unique_ptr<LoadedModel> gone;  // ends outside the lock
  const std::lock_guard lock(mutex_);
  Slot* least = nullptr;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.loaded == nullptr || slot.uses > 0 || recipes_[i].is_pinned) continue;
    if (least == nullptr || slot.last_used < least->last_used) least = &slot;
  }
  if (least == nullptr) return false;
  gone = std::move(least->loaded);
  return true;
}

void ModelShelf::put(size_t recipe, std::unique_ptr<LoadedModel> loaded) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[recipe];
  slot.loaded = std::move(loaded);
  slot.last_used = Clock::now();
  slot.keep_alive = recipes_[recipe].keep_alive;
}

Outcome<std::shared_ptr<ModelUse>> ModelShelf::load(ModelPlace place) {
  for (;;) {
    if (std::shared_ptr<ModelUse> use = use_loaded(place)) return use;
    const bool others = others_may_go(place.recipe);
    Result<std::unique_ptr<LoadedModel>> made = recipes_[place.recipe].load(/*may_lack_room=*/!others);
    if (made) {
      put(place.recipe, *std::move(made));
      continue;
    }
    const bool is_full = made.error().kind == ErrorKind::out_of_memory;
    if (is_full && unload_least_used()) continue;
    return Refusal{.status = is_full ? 503 : 500,
                   .message = cat("model ", printable(card(place).id()), " cannot be loaded",
                                  is_full && others ? " while others answer: " : ": ", made.error().text),
                   .param = "model",
                   .code = "model_not_loaded",
                   .retry = is_full && others};
  }
}

ModelShelf::Clock::time_point ModelShelf::unload_expired() {
  std::vector<std::unique_ptr<LoadedModel>> gone;  // end outside the lock
  const std::lock_guard lock(mutex_);
  Clock::time_point next = kNever;
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.loaded == nullptr || slot.uses > 0) continue;
    const Clock::time_point end = end_of(i, slot.last_used);
    if (end <= now)
      gone.push_back(std::move(slot.loaded));
    else
      next = std::min(next, end);
  }
  return next;
}

void ModelShelf::unload_all() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_)
    if (slot.uses == 0) slot.loaded.reset();
}

bool ModelShelf::warm_up() {
  bool warms = false;
  for (const Slot& slot : slots_)
    if (slot.loaded != nullptr) warms = slot.loaded->opened->engine->warm_up() || warms;
  return warms;
}

}  // namespace sluice

#include "serve/model_shelf.h"

#include <algorithm>

#include "base/suggest.h"
#include "base/text.h"

namespace sluice {
namespace {

std::shared_ptr<const ModelCard> card_of(const std::shared_ptr<const ModelRecipe>& recipe, size_t variant) {
  return {recipe, &recipe->cards[variant]};
}

}  // namespace

ModelUse::~ModelUse() { shelf_->release(place_.recipe); }

void ModelUse::keep(std::optional<KeepAlive> keep_alive) {
  const std::lock_guard lock(shelf_->mutex_);
  ModelShelf::Slot& slot = shelf_->slots_.at(place_.recipe);
  slot.keep_alive = keep_alive.value_or(slot.recipe->keep_alive);
}

ModelShelf::ModelShelf(std::vector<ModelRecipe> recipes) {
  for (ModelRecipe& recipe : recipes) add(std::move(recipe));
}

size_t ModelShelf::add(ModelRecipe recipe) {
  const std::lock_guard lock(mutex_);
  slots_[next_].recipe = std::make_shared<const ModelRecipe>(std::move(recipe));
  return next_++;
}

void ModelShelf::remove(size_t recipe) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto slot = slots_.find(recipe); slot != slots_.end()) slot->second.has_gone = true;
  }
  tell_();
}

std::shared_ptr<const ModelRecipe> ModelShelf::recipe(size_t number) const {
  const std::lock_guard lock(mutex_);
  const auto slot = slots_.find(number);
  return slot == slots_.end() ? nullptr : slot->second.recipe;
}

std::shared_ptr<const ModelCard> ModelShelf::card(ModelPlace place) const {
  const std::shared_ptr<const ModelRecipe> found = recipe(place.recipe);
  return found == nullptr ? nullptr : card_of(found, place.variant);
}

std::vector<PlacedCard> ModelShelf::cards() const {
  const std::lock_guard lock(mutex_);
  std::vector<PlacedCard> all;
  for (const auto& [number, slot] : slots_)
    for (size_t variant = 0; variant < slot.recipe->cards.size() && !slot.has_gone; ++variant)
      all.push_back({{number, variant}, card_of(slot.recipe, variant)});
  return all;
}

std::optional<ModelPlace> ModelShelf::find(std::string_view name) const {
  for (const auto& [place, card] : cards())
    if (card->answers_to(name)) return place;
  return std::nullopt;
}

std::shared_ptr<const ModelCard> ModelShelf::card(std::string_view name) const {
  const std::optional<ModelPlace> place = find(name);
  return place ? card(*place) : nullptr;
}

Refusal ModelShelf::unknown(const std::string& name) const {
  std::vector<std::string> known, shown;
  for (const auto& [place, card] : cards()) {
    known.insert(known.end(), card->names.begin(), card->names.end());
    shown.push_back(printable(card->id()));
  }
  const std::string near = nearest_word(name, known);
  std::string want = near.empty() ? "" : cat(": did you mean ", printable(near), '?');
  if (near.empty() && !shown.empty()) {
    want = shown.size() == 1 ? ": want " : ": want one of ";
    for (size_t i = 0; i < shown.size(); ++i) want += cat(i == 0 ? "" : ", ", shown[i]);
  }
  return {.status = 404,
          .message = cat("model ", printable(name), " not found", want.substr(0, 1000)),
          .param = "model",
          .code = "model_not_found"};
}

std::shared_ptr<ModelUse> ModelShelf::use_loaded(ModelPlace place) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(place.recipe);
  if (found == slots_.end() || found->second.loaded == nullptr) return nullptr;
  ++found->second.uses;
  return std::make_shared<ModelUse>(*this, place, *found->second.loaded);
}

void ModelShelf::release(size_t recipe) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_.at(recipe);
    --slot.uses;
    slot.last_used = Clock::now();
  }
  tell_();
}

ModelShelf::Clock::time_point ModelShelf::Slot::end(Clock::time_point idle_since) const {
  if (recipe->is_pinned || keep_alive < KeepAlive(0)) return kNever;
  return idle_since + std::chrono::duration_cast<Clock::duration>(keep_alive);
}

std::optional<ModelShelf::Clock::time_point> ModelShelf::expires_at(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(recipe);
  if (found == slots_.end() || found->second.loaded == nullptr) return std::nullopt;
  const Slot& slot = found->second;
  const Clock::time_point now = Clock::now();
  if (slot.uses > 0) return slot.end(now);
  const Clock::time_point end = slot.end(slot.last_used);
  return end > now ? std::optional(end) : std::nullopt;
}

bool ModelShelf::others_may_go(size_t recipe) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(slots_, [&](const auto& one) { return one.first != recipe && one.second.may_go(); });
}

bool ModelShelf::unload_least_used() {
  std::unique_ptr<LoadedModel> gone;  // ends outside the lock
  const std::lock_guard lock(mutex_);
  Slot* least = nullptr;
  for (auto& [number, slot] : slots_) {
    if (!slot.may_go() || slot.uses > 0) continue;
    if (least == nullptr || slot.last_used < least->last_used) least = &slot;
  }
  if (least == nullptr) return false;
  gone = std::move(least->loaded);
  return true;
}

void ModelShelf::put(size_t recipe, std::unique_ptr<LoadedModel> loaded) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_.at(recipe);
  slot.loaded = std::move(loaded);
  slot.last_used = Clock::now();
  slot.keep_alive = slot.recipe->keep_alive;
}

Outcome<std::shared_ptr<ModelUse>> ModelShelf::load(ModelPlace place) {
  const std::shared_ptr<const ModelRecipe> wanted = recipe(place.recipe);
  if (wanted == nullptr)
    return Refusal{
        .status = 404, .message = "the model was deleted meanwhile", .param = "model", .code = "model_not_found"};
  for (;;) {
    if (std::shared_ptr<ModelUse> use = use_loaded(place)) return use;
    const bool others = others_may_go(place.recipe);
    Result<std::unique_ptr<LoadedModel>> made = wanted->load(/*may_lack_room=*/!others);
    if (made) {
      put(place.recipe, *std::move(made));
      continue;
    }
    const bool is_full = made.error().kind == ErrorKind::out_of_memory;
    if (is_full && unload_least_used()) continue;
    return Refusal{.status = is_full ? 503 : 500,
                   .message = cat("model ", printable(wanted->cards[place.variant].id()), " cannot be loaded",
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
  for (auto& [number, slot] : slots_) {
    if (slot.loaded == nullptr || slot.uses > 0) continue;
    const Clock::time_point end = slot.has_gone ? now : slot.end(slot.last_used);
    if (end <= now)
      gone.push_back(std::move(slot.loaded));
    else
      next = std::min(next, end);
  }
  std::erase_if(slots_, [](const auto& one) { return one.second.has_gone && one.second.loaded == nullptr; });
  return next;
}

void ModelShelf::unload_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [number, slot] : slots_)
    if (slot.uses == 0) slot.loaded.reset();
}

bool ModelShelf::warm_up() {
  std::vector<Engine*> engines;  // only this thread unloads them
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, slot] : slots_)
      if (slot.loaded != nullptr) engines.push_back(slot.loaded->opened->engine.get());
  }
  bool warms = false;
  for (Engine* engine : engines) warms = engine->warm_up() || warms;
  return warms;
}

}  // namespace sluice

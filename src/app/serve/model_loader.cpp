#include "app/serve/model_loader.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "app/cli/environment.h"
#include "app/cli/progress.h"
#include "app/open/contents_file.h"
#include "app/open/machine_memory.h"
#include "base/text.h"
#include "checkpoint/file_type.h"
#include "serve/request_memory.h"

namespace sluice {
namespace {

// Freed texts of a model would go on to count as the program's memory.
void give_back_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

struct Closes {
  void operator()(ChatModel* model) const {
    delete model;
    give_back_freed_memory();
  }
};

// Size and time of the model's files.
void describe_files(const Checkpoint& checkpoint, ModelCard& card) {
  card.file_kind = checkpoint.dialect() == Dialect::gguf ? "gguf" : "safetensors";
  card.weights = format_label(checkpoint);
  for (const std::string& file : checkpoint.files()) {
    std::error_code failed;
    const uintmax_t bytes = std::filesystem::file_size(file, failed);
    if (!failed) card.bytes += bytes;
    const auto written = std::filesystem::last_write_time(file, failed);
    if (failed) continue;
    const auto time = std::chrono::file_clock::to_sys(written).time_since_epoch();
    card.created = std::max<int64_t>(card.created, std::chrono::duration_cast<std::chrono::seconds>(time).count());
  }
}

// Adapters that every request has; those of each name follow.
std::vector<NamedAdapter> with(std::vector<NamedAdapter> always, const ServedAdapter& one) {
  always.push_back(one.adapter);
  return always;
}

EngineOptions options_of(const Model& model, const StoreSettings& stored, const Arguments& arguments) {
  EngineOptions options = engine_options_of(arguments, model.facts(), stored.context);
  options.sequences = static_cast<uint32_t>(arguments.integer("--parallel"));
  options.experts = expert_options(arguments);
  return options;
}

Result<ModelFiles> files_of(const WantedModel& wanted) {
  return wanted.stored ? *wanted.stored : model_files(wanted.model, wanted.arguments);
}

}  // namespace

ModelRecipe recipe_of(const std::shared_ptr<ModelLoader>& loader, std::vector<ModelCard> cards) {
  const WantedModel& wanted = loader->wanted();
  return {.cards = std::move(cards),
          .is_pinned = wanted.is_pinned,
          .is_stored = wanted.stored.has_value(),
          .keep_alive = wanted.keep_alive,
          .running = static_cast<uint32_t>(wanted.arguments.integer("--parallel")),
          .load = [loader](bool may_lack_room) { return loader->load(may_lack_room); }};
}

Result<DeviceNeeds> needs_of_server(const WantedModel& wanted) {
  TRY(const ModelFiles files, files_of(wanted));
  TRY(Model model, open_model(files, wanted.arguments));
  TRY(const StoreSettings stored, settings_of(files, model));
  WeightFiles weights = weight_files(model);
  EngineOptions options = options_of(model, stored, wanted.arguments);
  TRY(AdapterSum adapters, open_adapters(model, files, wanted.always));
  if (!adapters.empty()) options.adapters = {std::move(adapters)};
  return DeviceNeeds{std::move(model), std::move(weights), options};
}

Result<std::unique_ptr<ModelLoader>> ModelLoader::create(WantedModel wanted, std::string version, Machine& machine,
                                                         Console& console) {
  TRY(ModelFiles files, files_of(wanted));
  return std::unique_ptr<ModelLoader>(
      new ModelLoader(std::move(wanted), std::move(version), std::move(files), machine, console));
}

// By card.
Result<std::vector<AdapterSum>> ModelLoader::open_sums(const Model& model) const {
  std::vector<AdapterSum> sums(1);
  TRY_ASSIGN(sums[0], open_adapters(model, files_, wanted_.always));
  for (const ServedAdapter& one : wanted_.named) {
    TRY(AdapterSum sum, open_adapters(model, files_, with(wanted_.always, one)));
    sums.push_back(std::move(sum));
  }
  return sums;
}

std::vector<ModelCard> ModelLoader::cards_of(const Model& model, const TextParts& text,
                                             const StoreSettings& stored) const {
  ModelCard card;
  card.describe(model, text);
  describe_files(model.checkpoint(), card);
  card.names = wanted_.names;
  card.context = options_of(model, stored, wanted_.arguments).context;
  card.system = stored.system;
  card.version = version_;
  std::vector<ModelCard> cards = {card};
  for (const ServedAdapter& one : wanted_.named) {
    cards.push_back(card);
    for (std::string& name : cards.back().names) name += cat(':', one.name);
  }
  return cards;
}

void ModelLoader::note_text_bytes(uint64_t anonymous_before) {
  const uint64_t now = resident_memory().anonymous;
  text_bytes_ = std::max(text_bytes_, now - std::min(now, anonymous_before));
}

Result<std::vector<ModelCard>> ModelLoader::cards() {
  give_back_freed_memory();
  const uint64_t before = resident_memory().anonymous;
  std::vector<ModelCard> cards;
  {
    TRY(const Model model, open_model(files_, wanted_.arguments));
    TRY(const TextParts text, open_text(model, {.chat_template_path = wanted_.arguments.text("--chat-template")}));
    TRY(const StoreSettings stored, settings_of(files_, model));
    TRY(const std::vector<AdapterSum> sums, open_sums(model));
    const Arithmetic arithmetic = options_of(model, stored, wanted_.arguments).arithmetic;
    Result<std::vector<TowerRoom>> rooms =
        tower_rooms(model, *machine_->device, arithmetic, picture_options(wanted_.arguments));
    if (rooms) towers_ = *std::move(rooms);
    note_text_bytes(before);
    cards = cards_of(model, text, stored);
  }
  give_back_freed_memory();
  return cards;
}

Result<std::unique_ptr<LoadedModel>> ModelLoader::load(bool may_lack_room, bool requests) {
  const Arguments& arguments = wanted_.arguments;
  const uint64_t before = resident_memory().anonymous;
  auto loaded = std::make_unique<LoadedModel>();
  std::vector<AdapterSum> sums;
  std::optional<ProgressLine> loading;
  const auto options = [&](const ChatModel& model) -> Result<EngineOptions> {
    if (requests)
      for (const std::string& ignored : model.model.facts().ignored)
        console_->err(cat("sluice: ", ignored, ": not used\n"));
    TRY_ASSIGN(sums, open_sums(model.model));
    EngineOptions fitting = options_of(model.model, model.settings, arguments);
    TRY_STATUS(settle_options(fitting, *machine_->device, model.model));
    fitting.states = states_.get();
    for (const AdapterSum& sum : sums)
      if (!sum.empty()) fitting.adapters.push_back(sum);
    Result<std::vector<TowerRoom>> rooms =
        tower_rooms(model.model, *machine_->device, fitting.arithmetic, picture_options(arguments));
    towers_ = rooms ? *std::move(rooms) : std::vector<TowerRoom>();
    if (!towers_.empty()) {
      // For a picture and a sound of every answer that is made at once.
      fitting.media = media_memory(towers_, {.pictures = fitting.sequences, .sounds = fitting.sequences});
      const uint64_t bound = machine_->bounds.host.bytes;
      const uint64_t for_media = media_request_bytes(bound, largest_input_bytes(towers_)) - text_request_bytes(bound);
      if (requests) fitting.media.push_back({Domain::host, Purpose::staging, for_media});
      fitting.media_may_lack_room = may_lack_room || lacks_room_;
    }
    note_text_bytes(before);
    TRY(Reservation text, machine_->budget.reserve(Domain::host, Purpose::reserve, text_bytes_));
    loaded->held.push_back(std::move(text));
    const GrammarMemory forms =
        grammar_memory(model.text.tokenizer.size(), fitting.sequences, machine_->bounds.host.bytes);
    model.text.grammars->set_room(forms.room);
    TRY(Reservation for_forms, machine_->budget.reserve(Domain::host, Purpose::staging, forms.bytes));
    loaded->held.push_back(std::move(for_forms));
    if (requests) loading.emplace(*console_, cat("loading ", printable(model.model.checkpoint().path())));
    return fitting;
  };
  TRY(std::unique_ptr<ChatModel> opened, open_chat_model({.files = files_,
                                                          .chat_template_path = arguments.text("--chat-template"),
                                                          .contents = std::make_shared<ContentsFile>(
                                                              contents_path(state_folder()), files_.path, *console_),
                                                          .draft_file = draft_file_of(arguments),
                                                          .options = options},
                                                         *machine_->device, machine_->budget, machine_->bounds));
  loading.reset();
  // Now, so that no request waits until the model is read for the names of its states.
  if (states_ != nullptr && states_->keeps()) opened->model.digest();
  if (!opened->draft_note.empty() && requests)
    console_->err(cat("sluice: ", printable(wanted_.names[0]), ": ", opened->draft_note, '\n'));
  if (!opened->media_note.empty() && !lacks_room_)
    console_->err(cat("sluice: ", printable(wanted_.names[0]), ": ", opened->media_note, '\n'));
  lacks_room_ = lacks_room_ || !opened->media_note.empty();
  const std::vector<ModelCard> cards = cards_of(opened->model, opened->text, opened->settings);
  for (size_t i = 0; i < cards.size(); ++i) {
    ServedModel served;
    static_cast<ModelCard&>(served) = cards[i];
    served.context = opened->engine->context();
    served.text = &opened->text;
    served.model = &opened->model;
    served.pictures = picture_options(arguments);
    if (!towers_.empty()) served.input_bytes = largest_input_bytes(towers_);
    served.sampling = opened->settings.sampling;
    served.stops = opened->settings.stops;
    served.adapters = sums[i];
    loaded->variants.push_back(std::move(served));
  }
  loaded->opened = std::shared_ptr<ChatModel>(opened.release(), Closes());
  return loaded;
}

}  // namespace sluice

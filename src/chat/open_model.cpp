#include "chat/open_model.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engine/sampling_json.h"

namespace sluice {
namespace {

// Positions where nobody says how many and experts come and go: the longest context would leave them no memory.
constexpr uint32_t kStreamedContext = 8192;

void shorten_context(const Model& model, EngineOptions& options) {
  if (options.context == 0) options.context = std::min(model.facts().context_length, kStreamedContext);
}

// Sizes that the options leave open become those that fit. `note`: why pictures and sounds have no room.
Status fit(const Model& model, const Device& device, const Budget& budget, const MemoryBound& bound,
           EngineOptions& options, std::string& note) {
  if (bound.by == MemoryBound::By::nobody) return {};
  const auto plan_it = [&] { return plan_memory(model, weight_files(model), device, budget, bound.bytes, options); };
  Result<MemoryPlan> plan = plan_it();
  if (plan && plan->streams() && options.context == 0) {
    shorten_context(model, options);
    plan = plan_it();
  }
  const auto fits_in = [&] { return plan ? check_room(*plan, bound) : Status(plan.error()); };
  if (options.draft.kind == DraftKind::both && options.draft.head_may_lack_room && !fits_in()) {
    options.draft.kind = DraftKind::ngram;
    return fit(model, device, budget, bound, options, note);
  }
  if (!options.media.empty() && options.media_may_lack_room) {
    if (const Status fits = fits_in(); !fits) {
      note = cat("pictures and sounds have no room: ", fits.error().text);
      options.media.clear();
      return fit(model, device, budget, bound, options, note);
    }
  }
  if (plan) options.draft.kind = plan->draft;
  if (plan && plan->needed() <= plan->limit) options.prompt_chunk = std::min(options.prompt_chunk, plan->prompt_chunk);
  if (bound.strict()) {
    if (!plan) return plan.error();
    TRY_STATUS(check_room(*plan, bound));
  } else if (!plan || !plan->streams() || plan->needed() > plan->limit) {
    // A file that memory holds is left to the page cache; the system would read a larger one again and again, by pages.
    return {};
  }
  options.experts.bytes = plan->slot_memory();
  options.prompt_chunk = plan->prompt_chunk;
  options.repack = plan->repack;
  return {};
}

}  // namespace

void MemoryBounds::limit(Budget& budget, Domain domain) const {
  budget.count_mapped(Domain::host, host.strict());
  budget.set_limit(Domain::host, host.bytes);
  if (device) budget.set_limit(domain, device->bytes);
}

Status check_room(const MemoryPlan& plan, const MemoryBound& bound) {
  Status fits = check_floor(plan);
  return fits || bound.note.empty() ? fits : error(fits.error().kind, fits.error().text, bound.note);
}

ModelFiles files_at(std::string path) {
  ModelFiles files;
  files.name = files.path = std::move(path);
  return files;
}

Result<Model> open_model(const std::string& path, std::shared_ptr<ContentsMemory> memory) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  return resolve(std::make_shared<const Checkpoint>(std::move(checkpoint)), std::move(memory));
}

Error named_after(const ModelFiles& files, const Error& why) {
  if (files.origin == Origin::path || !starts_with(why.text, files.path)) return why;
  return error(why.kind, files.name, why.text.substr(files.path.size()));
}

Result<Model> open_model(const ModelFiles& files, DraftFile draft_file, std::shared_ptr<ContentsMemory> memory,
                         std::string* draft_note) {
  Result<Model> opened = open_model(files.path, std::move(memory));
  if (!opened) return named_after(files, opened.error());
  Model model = *std::move(opened);
  if (!files.projector.empty()) TRY_ASSIGN(model, with_projector(model, files.projector));
  const bool is_wanted =
      draft_file == DraftFile::any || (draft_file == DraftFile::draft_model && model.may_have_draft_model());
  if (!is_wanted || files.draft_head.empty()) return model;
  Result<Model> drafting = with_draft_head(model, files.draft_head);
  if (drafting || draft_file == DraftFile::any) return drafting;
  if (draft_note != nullptr) *draft_note = cat(drafting.error().text, ": not used to draft");
  return model;
}

Result<StoreSettings> settings_of(const ModelFiles& files, const Model& model) {
  return read_store_settings(files, model.facts().vocabulary, sampling_of_file(model.facts().sampling));
}

Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Budget& budget,
                                            const MemoryBounds& bounds, EngineOptions options,
                                            std::string* media_note) {
  std::string note;
  const Domain domain = device.info().memory;
  options.lease_rows = bounds.lease_rows;
  if (options.experts.bytes == 0) {
    TRY_STATUS(fit(model, device, budget, bounds.of(domain), options, note));
  } else {
    shorten_context(model, options);
    if (options.media_may_lack_room) options.media.clear();
  }
  if (domain == Domain::host) options.experts.bytes = std::min(options.experts.bytes, bounds.most_expert_bytes);
  // While a weight is packed behind answers its stored form is read, too, and a large head would stand twice.
  if (bounds.host.strict() && options.repack == Repack::behind) options.repack = Repack::first;
  if (media_note != nullptr) *media_note = std::move(note);
  return Engine::create(model, device, budget, options);
}

Result<std::unique_ptr<ChatModel>> open_chat_model(const ChatModelRequest& request, Device& device, Budget& budget,
                                                   const MemoryBounds& bounds) {
  std::string draft_note;
  TRY(Model model, open_model(request.files, request.draft_file, request.contents, &draft_note));
  TRY(TextParts text, open_text(model, {.chat_template_path = request.chat_template_path}));
  TRY(StoreSettings settings, settings_of(request.files, model));
  auto opened = std::make_unique<ChatModel>(ChatModel{std::move(model), std::move(text), std::move(settings)});
  opened->draft_note = std::move(draft_note);
  TRY(EngineOptions options, request.options(*opened));
  TRY(opened->engine, open_engine(opened->model, device, budget, bounds, std::move(options), &opened->media_note));
  return opened;
}

}  // namespace sluice

#include "wasm/instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/files/memory_files.h"
#include "base/unicode.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "engine/plan/tower_room.h"
#include "engine/sampling_json.h"
#include "wasm/json_members.h"
#include "wasm/page_gpu.h"

namespace sluice::wasm {
namespace {

constexpr uint64_t kHeapBytes = uint64_t{1} << 32;
// Stack, code's data, vocabulary and what the allocator loses.
constexpr uint64_t kReserveBytes = uint64_t{256} << 20;
// That the module's malloc gives at once is less than 2 GiB, and slots in the heap are one block.
constexpr uint64_t kMostSlotBytes = (uint64_t{1} << 31) - (uint64_t{1} << 20);
constexpr uint32_t kMostAdapterSlots = 256, kMostAdapterRank = 4096;
// At once, so that the page may wait for them to arrive.
constexpr uint64_t kLoadBytes = uint64_t{32} << 20;
// Where a state lies while it is saved or restored.
constexpr const char* kStatePath = "state being moved";

Json json_of(const std::vector<int32_t>& numbers) {
  Json::Array array;
  for (const int32_t number : numbers) array.emplace_back(int64_t{number});
  return array;
}

const char* name_of(Finish finish) {
  static constexpr const char* kNames[] = {"running", "stop_token", "length", "cancelled", "failed"};
  return kNames[static_cast<size_t>(finish)];
}

const char* name_of(TurnEnd end) {
  static constexpr const char* kNames[] = {"stop", "length", "cancelled"};
  return kNames[static_cast<size_t>(end)];
}

Result<Arithmetic> arithmetic_of(const std::string& name) {
  if (name == "fast") return Arithmetic::fast;
  if (name == "exact") return Arithmetic::exact;
  return error(ErrorKind::invalid, "arithmetic ", printable(name), ": want exact or fast");
}

Result<std::optional<Format>> cache_of(const Json& options) {
  if (options.find("cache") == nullptr) return std::optional<Format>();
  TRY(const std::string name, text_of(options, "cache", ""));
  const std::optional<Format> format = format_by_name(name);
  if (format) return format;
  return error(ErrorKind::invalid, "cache ", printable(name), ": want f32, f16 or bf16");
}

Result<ModelFiles> files_of(const Json& options) {
  TRY(std::string path, text_of(options, "model", ""));
  ModelFiles files = files_at(std::move(path));
  TRY_ASSIGN(files.projector, text_of(options, "projector", ""));
  return files;
}

Status read_room(const Json& options, AdapterRoom& room) {
  TRY(room.slots, number_of<uint32_t>(options, "adapter_slots", room.slots));
  TRY(room.rank, number_of<uint32_t>(options, "adapter_rank", room.rank));
  if (room.slots <= kMostAdapterSlots && room.rank > 0 && room.rank <= kMostAdapterRank) return {};
  return error(ErrorKind::invalid, "adapter_slots ", room.slots, ", adapter_rank ", room.rank, ": want at most ",
               kMostAdapterSlots, " of ranks from 1 to ", kMostAdapterRank);
}

}  // namespace

Result<Json> inspect(const Json& options) {
  TRY(const ModelFiles files, files_of(options));
  TRY(const Model model, open_model(files, DraftFile::none));
  const ModelFacts& facts = model.facts();
  return Json(Json::Object{
      {"name", facts.name}, {"family", facts.family}, {"parameters", static_cast<int64_t>(facts.parameters)}});
}

Result<std::unique_ptr<Instance>> Instance::open(const Json& options) {
  TRY(ModelFiles files, files_of(options));
  TRY(const std::string device, text_of(options, "device", ""));
  TRY(const std::string arithmetic, text_of(options, "arithmetic", "fast"));
  std::unique_ptr<Instance> opened(new Instance);
  EngineOptions& engine = opened->options_;
  engine.repack = Repack::first;
  TRY(engine.arithmetic, arithmetic_of(arithmetic));
  TRY(engine.cache, cache_of(options));
  TRY(engine.context, number_of<uint32_t>(options, "context", 0));
  TRY(engine.experts.bytes, bytes_of(options, "expert_memory"));
  TRY(const uint64_t memory, bytes_of(options, "memory"));
  TRY_STATUS(read_room(options, engine.adapter_room));

  std::unique_ptr<webgpu::HostFactory> gpu;
  if (device.empty() || device == "webgpu") TRY_ASSIGN(gpu, page_gpu());
  TRY_STATUS(opened->make_device(device, std::move(gpu)));
  opened->bounds_ = opened->bounds(memory);
  opened->budget_.set_reserve(Domain::host, kReserveBytes);
  opened->bounds_.limit(opened->budget_, opened->device_->info().memory);
  // A page has one setting for all models: one without experts takes no memory for them.
  const auto options_for = [&](const ChatModel& chat) -> Result<EngineOptions> {
    TRY(const Program program, chat.model.record_text());
    if (std::ranges::none_of(program.ops, [](const Op& op) { return std::holds_alternative<Experts>(op); }))
      engine.experts.bytes = 0;
    // A tower that this device cannot take is refused when something is shown to it.
    if (const Result<std::vector<TowerRoom>> rooms = tower_rooms(chat.model, *opened->device_, engine.arithmetic)) {
      engine.media = media_memory(*rooms);
      engine.media_may_lack_room = true;
    }
    return engine;
  };
  TRY(opened->chat_, open_chat_model({.files = std::move(files), .options = options_for}, *opened->device_,
                                     opened->budget_, opened->bounds_));
  const ChatModel& chat = *opened->chat_;
  opened->session_ = std::make_unique<ChatSession>(chat.text, *chat.engine, *chat.text.dialect);
  return opened;
}

Instance::~Instance() { close_engine(); }

// On a page's GPU nothing ends while the engine waits for the session's sequence.
void Instance::close_engine() {
  if (session_) session_->sequence().abandon();
  session_.reset();
  if (chat_) chat_->engine.reset();
}

Status Instance::open_engine() {
  TRY(chat_->engine, sluice::open_engine(chat_->model, *device_, budget_, bounds_, options_, &chat_->media_note));
  session_ = std::make_unique<ChatSession>(chat_->text, *chat_->engine, *chat_->text.dialect);
  loaded_ = gpu_ == nullptr;
  return {};
}

// Unnamed: the page's GPU where it has one.
Status Instance::make_device(const std::string& name, std::unique_ptr<webgpu::HostFactory> page_gpu) {
  if (page_gpu != nullptr) {
    std::unique_ptr<WebGpuDevice> gpu = make_webgpu_device(std::move(page_gpu));
    gpu_ = gpu.get();
    device_ = std::move(gpu);
    loaded_ = false;
    return {};
  }
  if (name == "webgpu") return error(ErrorKind::not_found, "device webgpu: the page has no GPU: want one, or cpu");
  if (!name.empty() && name != "cpu" && name != "reference")
    return error(ErrorKind::unsupported, "device ", printable(name),
                 ": this module has no such: want webgpu, cpu or reference");
  device_ = name == "reference" ? make_reference_device() : make_cpu_device({.pool = &pool_});
  return {};
}

// `memory`: bytes of the device's, 0 for all there are. The heap ends at 4 GiB; how much a GPU has nobody says. Tables
// of a model on a GPU stay whole in the files, which the host reads without the heap.
MemoryBounds Instance::bounds(uint64_t memory) const {
  const bool on_host = device_->info().memory == Domain::host;
  MemoryBounds bounds{.host = {.by = MemoryBound::By::size, .bytes = kHeapBytes},
                      .lease_rows = on_host,
                      .most_expert_bytes = kMostSlotBytes};
  if (!on_host) bounds.device = MemoryBound{};
  if (memory == 0) return bounds;
  MemoryBound& bound = on_host ? bounds.host : *bounds.device;
  bound = {.by = MemoryBound::By::request, .bytes = std::min(bound.bytes, memory)};
  return bounds;
}

Result<Json> Instance::load() {
  if (training_) return error(ErrorKind::invalid, "the model learns: want its training to end first");
  if (!chat_->engine) TRY_STATUS(open_engine());
  WebGpuDevice::Loaded loaded;
  if (gpu_ != nullptr) TRY_ASSIGN(loaded, gpu_->load(kLoadBytes));
  TRY_STATUS(chat_->model.checkpoint().check_unchanged());
  loaded_ = loaded.bytes == loaded.of;
  return Json(Json::Object{{"bytes", static_cast<int64_t>(loaded.bytes)}, {"of", static_cast<int64_t>(loaded.of)}});
}

Json Instance::describe() const {
  const DeviceInfo device = device_->info();
  return Json::Object{{"name", chat_->model.facts().name},
                      {"device", device.name},
                      {"device_description", device.description},
                      {"numerics_id", chat_->engine->numerics_id()},
                      {"vocabulary", int64_t{chat_->model.facts().vocabulary}},
                      {"context", int64_t{chat_->engine->context()}},
                      {"ends", json_of(chat_->text.ends)},
                      {"has_chat_template", chat_->text.chat.has_value()},
                      {"takes_pictures", chat_->model.has(ProgramKind::vision)},
                      {"takes_sounds", chat_->model.has(ProgramKind::audio)},
                      {"sampling", sampling_json(chat_->settings.sampling)}};
}

Result<std::string> Instance::render(const Json& chat) const {
  const Json *messages = chat.find("messages"), *extra = chat.find("extra");
  if (messages == nullptr) return error(ErrorKind::invalid, "messages: are missing: want an array of objects");
  TRY(ChatPrompt prompt, render_chat(chat_->text, *messages, extra != nullptr ? *extra : Json()));
  return std::move(prompt.text);
}

Status Instance::check_open() const {
  if (training_) return error(ErrorKind::invalid, "the model learns: want its training to end first");
  if (chat_->engine) return {};
  return error(ErrorKind::invalid, "the model is closed after a training: want sluice_load first");
}

Status Instance::check_ready() const {
  TRY_STATUS(check_open());
  if (running_ || session_->running())
    return error(ErrorKind::invalid, "an answer is being made: want it to end first");
  if (!loaded_) return error(ErrorKind::invalid, "the model is not loaded: want sluice_load until it is");
  return {};
}

// For what closes the engine.
Status Instance::check_idle() const {
  TRY_STATUS(check_ready());
  return saving_ ? error(ErrorKind::invalid, "the GPU brings a state: want that to end first") : Status();
}

// What could not be read of a file went into the answer as zeros.
Status Instance::check_files() {
  const Status whole = chat_->model.checkpoint().check_unchanged();
  if (!whole) cancel();
  return whole;
}

Status Instance::begin(const Json& json) {
  TRY_STATUS(check_ready());
  const Json *messages = json.find("messages"), *variables = json.find("variables");
  ChatPrompt prompt;
  if (messages != nullptr) {
    TRY(std::vector<PreparedMedia> media, media_.shown_by(*messages));
    TRY_ASSIGN(prompt, session_->render(*messages, variables != nullptr ? *variables : Json(), std::move(media)));
  } else {
    TRY(const std::string text, text_of(json, "prompt", ""));
    if (!is_utf8(text)) return error(ErrorKind::invalid, "the prompt is not UTF-8: want text");
    prompt = session_->plain(text);
  }
  TurnSettings settings;
  TRY(settings.max_tokens, number_of<uint32_t>(json, "max_tokens", 0));
  TRY(settings.stops, strings_of(json, "stop"));
  TRY(settings.adapters, adapters_of(json));
  if (const Json* schema = json.find("schema")) {
    const GrammarSource source{.kind = GrammarSource::Kind::json_schema, .schema = *schema};
    auto grammar = chat_->text.grammars->compile(chat_->text.tokenizer, source);
    if (!grammar) return error(grammar.error().kind, "schema: ", grammar.error().text);
    settings.grammar = *std::move(grammar);
  }
  settings.sampling.temperature = 0;
  TRY_STATUS(read_sampling(json, "begin", chat_->model.facts().vocabulary, settings.sampling));
  return session_->begin(prompt, settings);
}

Result<std::optional<Json>> Instance::go_on() {
  if (!session_ || !session_->running())
    return error(ErrorKind::invalid, "go_on: no answer is being made: want one begun");
  TRY(const StepState state, session_->step());
  if (state == StepState::in_flight && session_->running()) return std::optional<Json>();
  if (const Status whole = check_files(); !whole) {
    static_cast<void>(session_->collect());  // the end of what is cancelled
    return whole.error();
  }
  std::string text, thinking, finish = "running";
  Json::Array calls;
  for (const TurnEvent& event : session_->take_events()) {
    if (const auto* piece = std::get_if<TextEvent>(&event)) text += piece->text;
    if (const auto* piece = std::get_if<ThinkingEvent>(&event)) thinking += piece->text;
    if (const auto* called = std::get_if<ToolCallEvent>(&event))
      calls.push_back(Json::Object{{"name", called->call.name}, {"arguments", called->call.arguments}});
    if (const auto* done = std::get_if<DoneEvent>(&event)) finish = name_of(done->end);
  }
  const Usage usage = session_->usage();
  return std::optional(Json(Json::Object{{"text", std::move(text)},
                                         {"thinking", std::move(thinking)},
                                         {"tool_calls", std::move(calls)},
                                         {"finish", std::move(finish)},
                                         {"prompt_tokens", int64_t{usage.prompt_tokens}},
                                         {"reused_tokens", int64_t{usage.reused_tokens}},
                                         {"computed_tokens", int64_t{usage.computed_tokens}},
                                         {"answer_tokens", int64_t{usage.answer_tokens}},
                                         {"prompt_seconds", usage.prompt_seconds},
                                         {"answer_seconds", usage.answer_seconds}}));
}

Status Instance::submit(const Json& json) {
  TRY_STATUS(check_ready());
  Request request;
  TRY(request.prompt, numbers_of<int32_t>(json, "prompt"));
  TRY(request.max_tokens, number_of<uint32_t>(json, "max_tokens", 0));
  TRY(request.stop_tokens, numbers_of<int32_t>(json, "stop_tokens"));
  TRY(request.logits_at, numbers_of<uint32_t>(json, "logits_at"));
  TRY(request.message_ends, numbers_of<uint32_t>(json, "message_ends"));
  TRY(request.sequence, number_of<uint32_t>(json, "sequence", 0));
  if (const Json* keep = json.find("keep_sequence")) request.keep_sequence = keep->is_bool() && keep->as_bool();
  TRY(request.adapters, adapters_of(json));
  request.sampling.temperature = 0;
  TRY_STATUS(read_sampling(json, "submit", chat_->model.facts().vocabulary, request.sampling));
  TRY_STATUS(give_media(json, request));
  TRY(running_, chat_->engine->submit(std::move(request)));
  return {};
}

Status Instance::give_media(const Json& json, Request& request) {
  TRY(const std::vector<uint32_t> numbers, numbers_of<uint32_t>(json, "media"));
  TRY(const std::vector<PreparedMedia> media, media_.named(numbers));
  if (media.empty()) return {};
  TRY(request.media, find_media(request.prompt, media));
  for (const PreparedMedia& one : media) TRY_STATUS(chat_->engine->give_media(one.input));
  return {};
}

// Opens the engine again with room for these adapters, at any scale. With the room it had, where that is too much.
Status Instance::make_room(const AdapterSum& sum) {
  if (chat_->engine) TRY_STATUS(check_idle());
  EngineOptions had = options_;
  AdapterRoom& room = options_.adapter_room;
  const bool has_room = room.slots != 0 && room.weights.empty();  // for every product
  room.slots = std::max(room.slots, 1u);
  room.weights.clear();
  uint32_t rank = 0;
  for (const AdapterUse& use : sum) {
    rank += use.adapter->rank();
    for (const AdaptedWeight& weight : use.adapter->weights())
      if (!has_room && !weight.is_embedding) room.weights.push_back(weight.weight);
  }
  room.rank = std::max(room.rank, rank);
  options_.adapters = {sum};
  close_engine();
  Status opened = open_engine();
  if (opened) return {};
  options_ = std::move(had);
  if (const Status again = open_engine(); !again) return again;
  return opened;
}

// What the engine has no room for is not kept.
Status Instance::use_adapters(AdapterShelf shelf) {
  if (training_) return check_open();
  const AdapterSum sum = shelf.sum();
  const bool fits = chat_->engine ? chat_->engine->check_adapters(sum).ok() : sum.empty();
  if (!fits) TRY_STATUS(make_room(sum));
  adapters_ = std::move(shelf);
  return {};
}

Result<Json> Instance::change_adapters(const Json& change) {
  AdapterShelf shelf = adapters_;
  std::shared_ptr<const Adapter> dropped;
  TRY(const float scale, number_of<float>(change, "scale", 1));
  if (change.find("add") != nullptr) {
    TRY(const std::string path, text_of(change, "add", ""));
    TRY(std::shared_ptr<const Adapter> adapter, Adapter::open(chat_->model, path));
    shelf.add({.adapter = std::move(adapter), .scale = scale});
  } else if (change.find("rescale") != nullptr) {
    TRY(const std::string name, text_of(change, "rescale", ""));
    TRY_STATUS(shelf.rescale(name, scale));
  } else if (change.find("drop") != nullptr) {
    TRY(const std::string name, text_of(change, "drop", ""));
    TRY(dropped, shelf.drop(name));
  }
  TRY_STATUS(use_adapters(std::move(shelf)));
  if (dropped && chat_->engine) chat_->engine->drop_adapter(*dropped);
  Json::Array all;
  for (const ShelvedAdapter& one : adapters_.list())
    all.push_back(Json::Object{{"name", one.name},
                               {"scale", double{one.use.scale}},
                               {"rank", int64_t{one.use.adapter->rank()}},
                               {"weights", static_cast<int64_t>(one.use.adapter->weights().size())}});
  return Json(std::move(all));
}

// "adapters": those that act on a request, by name with their scales; without it all that there are, with their own.
Result<AdapterSum> Instance::adapters_of(const Json& request) const {
  const Json* named = request.find("adapters");
  if (named == nullptr) return adapters_.sum();
  if (!named->is_object())
    return error(ErrorKind::invalid, "adapters: found ", write_json(*named), ": want an object of names and scales");
  AdapterShelf some = adapters_;
  for (const ShelvedAdapter& one : adapters_.list()) TRY_STATUS(some.rescale(one.name, 0));
  for (const auto& [name, scale] : named->as_object()) {
    TRY(const float number, number_of<float>(scale, name));
    TRY_STATUS(some.rescale(name, number));
  }
  return some.sum();
}

Result<Json> Instance::begin_training(const Json& options) {
  TRY_STATUS(check_idle());
  TRY(std::unique_ptr<PageTraining> training, PageTraining::prepare(*chat_, options));
  close_engine();
  TRY_STATUS(training->begin(*device_, pool_, budget_));
  training_ = std::move(training);
  return training_->describe();
}

Result<std::optional<Json>> Instance::train_on() {
  if (training_) return training_->go_on();
  return error(ErrorKind::invalid, "train_on: no adapter is trained: want a training begun");
}

void Instance::stop_training() {
  if (training_) training_->stop();
}

Result<std::string> Instance::trained_file(std::string_view name) const {
  if (training_) return training_->file(name);
  return error(ErrorKind::invalid, "trained: no adapter is trained: want a training begun");
}

void Instance::cancel() {
  if (session_) session_->cancel();
  if (running_) chat_->engine->cancel(*running_);
}

Result<Json> Instance::collect() {
  if (!running_) return error(ErrorKind::invalid, "collect: no answer is being made: want one submitted");
  TRY(Progress progress, chat_->engine->collect(*running_));
  if (progress.finish != Finish::running) running_.reset();
  if (progress.failure) return *std::move(progress.failure);
  if (const Status whole = check_files(); !whole) {
    running_.reset();
    return whole.error();
  }
  logits_ = std::move(progress.logits);
  Json::Array tokens;
  for (const SampleResult& token : progress.tokens) tokens.emplace_back(int64_t{token.token});
  return Json(Json::Object{{"finish", name_of(progress.finish)},
                           {"sequence", static_cast<int64_t>(progress.sequence)},
                           {"tokens", std::move(tokens)},
                           {"prompt_tokens", int64_t{progress.prompt_tokens}},
                           {"reused_tokens", int64_t{progress.reused_tokens}},
                           {"computed_prompt_tokens", int64_t{progress.computed_prompt_tokens}}});
}

Result<std::optional<std::string>> Instance::save(SequenceId sequence) {
  TRY_STATUS(check_open());
  const Result<bool> saved = chat_->engine->save_without_waiting(sequence, kStatePath);
  saving_ = saved && !*saved;
  if (!saved) return saved.error();
  if (saving_) return std::optional<std::string>();
  auto state = read_file(kStatePath, kHeapBytes);
  memory_files().erase(kStatePath);
  if (!state) return state.error();
  return std::optional<std::string>(*std::move(state));
}

Result<Json> Instance::restore(std::span<const std::byte> state) {
  TRY_STATUS(check_open());
  // The engine waits for what is under way, and on a page's GPU nothing ends meanwhile.
  if (gpu_ != nullptr && (running_ || session_->running() || saving_))
    return error(ErrorKind::invalid, "restore: the GPU is at work on an answer or a state: want that to end first");
  auto* const bytes = static_cast<std::byte*>(std::malloc(state.size() + 1));  // never of nothing
  if (bytes == nullptr) return error(ErrorKind::out_of_memory, "state: no room for ", state.size(), " bytes");
  std::copy(state.begin(), state.end(), bytes);
  memory_files()[kStatePath] = std::make_shared<const MemoryBlock>("state", bytes, state.size());
  std::string note;
  const Result<SequenceId> restored = chat_->engine->load(kStatePath, &note);
  memory_files().erase(kStatePath);
  if (!restored) return restored.error();
  TRY(const History history, chat_->engine->history(*restored));
  std::vector<int32_t> tokens;
  tokens.reserve(history.size());
  for (const auto& entry : history) tokens.push_back(entry.token);
  return Json(Json::Object{{"sequence", static_cast<int64_t>(*restored)}, {"tokens", json_of(tokens)}, {"note", note}});
}

Json Instance::stats() const {
  const Engine* engine = chat_->engine.get();
  const EngineStats stats = engine != nullptr ? engine->stats() : EngineStats{};
  const DispatchCounts counts =
      engine != nullptr ? engine->dispatch_counts().value_or(DispatchCounts{}) : DispatchCounts{};
  Json::Array memory;
  for (const BudgetLine& line : budget_.lines())
    memory.emplace_back(Json::Object{{"domain", domain_name(line.domain)},
                                     {"purpose", purpose_name(line.purpose)},
                                     {"bytes", static_cast<int64_t>(line.bytes)},
                                     {"peak", static_cast<int64_t>(line.peak)}});
  Json experts;
  if (const std::optional<ExpertStats> found = engine != nullptr ? engine->expert_stats() : std::nullopt)
    experts = Json::Object{
        {"slots", static_cast<int64_t>(found->slots)},     {"slot_bytes", static_cast<int64_t>(found->slot_bytes)},
        {"experts", static_cast<int64_t>(found->experts)}, {"uses", static_cast<int64_t>(found->uses)},
        {"misses", static_cast<int64_t>(found->misses)},   {"read_bytes", static_cast<int64_t>(found->read_bytes)}};
  return Json::Object{{"prompt_rows", static_cast<int64_t>(stats.prompt_rows)},
                      {"decode_rows", static_cast<int64_t>(stats.decode_rows)},
                      {"steps", static_cast<int64_t>(stats.steps)},
                      {"dispatches", int64_t{counts.token}},
                      {"pipelines", int64_t{counts.pipelines}},
                      {"memory", std::move(memory)},
                      {"experts", std::move(experts)}};
}

}  // namespace sluice::wasm

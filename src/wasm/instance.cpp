#include "wasm/instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/files/memory_files.h"
#include "base/unicode.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "engine/plan/memory_plan.h"
#include "engine/sampling_json.h"
#include "wasm/page_gpu.h"

namespace sluice::wasm {
namespace {

constexpr uint64_t kHeapBytes = uint64_t{1} << 32;
// Stack, code's data, vocabulary and what the allocator loses.
constexpr uint64_t kReserveBytes = uint64_t{256} << 20;
// That the module's malloc gives at once is less than 2 GiB, and slots in the heap are one block.
constexpr uint64_t kMostSlotBytes = (uint64_t{1} << 31) - (uint64_t{1} << 20);
constexpr double kMostBytes = 1e15;
// Positions where nobody says how many and experts come and go: the longest context would leave them no memory.
constexpr uint32_t kStreamedContext = 8192;
// At once, so that the page may wait for them to arrive.
constexpr uint64_t kLoadBytes = uint64_t{32} << 20;
// Where a state lies while it is saved or restored.
constexpr const char* kStatePath = "state being moved";

Result<std::string> text_of(const Json& object, std::string_view name, std::string_view otherwise) {
  const Json* member = object.find(name);
  if (member == nullptr) return std::string(otherwise);
  if (member->is_string()) return member->as_string();
  return error(ErrorKind::invalid, name, ": is no string: want one");
}

template <class T>
Result<T> number_of(const Json& json, std::string_view name) {
  constexpr auto kLeast = std::numeric_limits<T>::lowest(), kMost = std::numeric_limits<T>::max();
  if (json.is_number() && json.as_number() >= static_cast<double>(kLeast) &&
      json.as_number() <= static_cast<double>(kMost)) {
    return static_cast<T>(json.as_number());
  }
  return error(ErrorKind::invalid, name, ": found ", write_json(json), ": want a number from ", kLeast, " to ", kMost);
}

template <class T>
Result<T> number_of(const Json& object, std::string_view name, T otherwise) {
  const Json* member = object.find(name);
  return member == nullptr ? Result<T>(otherwise) : number_of<T>(*member, name);
}

template <class T>
Result<std::vector<T>> numbers_of(const Json& object, std::string_view name) {
  std::vector<T> numbers;
  const Json* member = object.find(name);
  if (member == nullptr) return numbers;
  if (!member->is_array()) return error(ErrorKind::invalid, name, ": is no array: want one of numbers");
  for (const Json& one : member->as_array()) {
    TRY(const T number, number_of<T>(one, name));
    numbers.push_back(number);
  }
  return numbers;
}

// 0: left out.
Result<uint64_t> bytes_of(const Json& options, std::string_view name) {
  TRY(const double bytes, number_of<double>(options, name, 0));
  if (bytes >= 0) return static_cast<uint64_t>(std::min(bytes, kMostBytes));
  return error(ErrorKind::invalid, name, ": found ", write_json(*options.find(name)), ": want a number of bytes");
}

Json json_of(const std::vector<int32_t>& numbers) {
  Json::Array array;
  for (const int32_t number : numbers) array.emplace_back(int64_t{number});
  return array;
}

const char* name_of(Finish finish) {
  static constexpr const char* kNames[] = {"running", "stop_token", "length", "cancelled", "failed"};
  return kNames[static_cast<size_t>(finish)];
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

}  // namespace

Result<std::unique_ptr<Instance>> Instance::open(const Json& options) {
  TRY(const std::string path, text_of(options, "model", ""));
  TRY(const std::string device, text_of(options, "device", ""));
  TRY(const std::string arithmetic, text_of(options, "arithmetic", "fast"));
  EngineOptions engine;
  TRY(engine.arithmetic, arithmetic_of(arithmetic));
  TRY(engine.cache, cache_of(options));
  TRY(engine.context, number_of<uint32_t>(options, "context", 0));
  TRY(engine.experts.bytes, bytes_of(options, "expert_memory"));
  TRY(const uint64_t memory, bytes_of(options, "memory"));

  std::unique_ptr<webgpu::HostFactory> gpu;
  if (device.empty() || device == "webgpu") TRY_ASSIGN(gpu, page_gpu());
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  TRY(Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  TRY(TextParts text, open_text(model));
  std::unique_ptr<Instance> opened(new Instance(std::move(model), std::move(text)));
  TRY_STATUS(opened->make_device(device, std::move(gpu)));
  TRY_STATUS(opened->fit_memory(memory, engine));
  TRY(opened->engine_, Engine::create(opened->model_, *opened->device_, opened->budget_, engine));
  return opened;
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

// `memory`: bytes of the device's, 0 for all there are. Experts that find no room in them are to be read as they are
// chosen, unless options say into how much. A model without experts asks for no memory for them.
Status Instance::fit_memory(uint64_t memory, EngineOptions& options) {
  const Domain domain = device_->info().memory;
  budget_.set_limit(Domain::host, kHeapBytes);
  budget_.set_reserve(Domain::host, kReserveBytes);
  budget_.count_mapped(Domain::host, true);
  uint64_t limit = domain == Domain::host ? kHeapBytes : UINT64_MAX;  // how much a GPU has nobody says
  if (memory != 0) limit = std::min(limit, memory);
  if (limit != UINT64_MAX) budget_.set_limit(domain, limit);
  options.lease_rows = domain == Domain::host;
  const auto shorten = [&] {
    if (options.context == 0) options.context = std::min(model_.facts().context_length, kStreamedContext);
  };
  TRY(const Program program, model_.record_text());
  if (std::ranges::none_of(program.ops, [](const Op& op) { return std::holds_alternative<Experts>(op); }))
    options.experts.bytes = 0;
  if (options.experts.bytes != 0) {
    shorten();
  } else if (limit != UINT64_MAX) {
    const auto plan_it = [&] { return plan_memory(model_, weight_files(model_), *device_, budget_, limit, options); };
    TRY(MemoryPlan plan, plan_it());
    if (plan.streams()) {
      shorten();
      TRY(plan, plan_it());
    }
    TRY_STATUS(check_floor(plan));
    options.experts.bytes = plan.slot_memory();
    options.prompt_chunk = plan.prompt_chunk;
  }
  if (domain == Domain::host) options.experts.bytes = std::min(options.experts.bytes, kMostSlotBytes);
  return {};
}

Result<Json> Instance::load() {
  WebGpuDevice::Loaded loaded;
  if (gpu_ != nullptr) TRY_ASSIGN(loaded, gpu_->load(kLoadBytes));
  TRY_STATUS(model_.checkpoint().check_unchanged());
  loaded_ = loaded.bytes == loaded.of;
  return Json(Json::Object{{"bytes", static_cast<int64_t>(loaded.bytes)}, {"of", static_cast<int64_t>(loaded.of)}});
}

Json Instance::describe() const {
  const DeviceInfo device = device_->info();
  return Json::Object{{"name", model_.facts().name},
                      {"device", device.name},
                      {"device_description", device.description},
                      {"numerics_id", engine_->numerics_id()},
                      {"vocabulary", int64_t{model_.facts().vocabulary}},
                      {"context", int64_t{engine_->context()}},
                      {"ends", json_of(text_.ends)},
                      {"has_chat_template", text_.chat.has_value()},
                      {"sampling", sampling_json(sampling_of_file(model_.facts().sampling))}};
}

Result<std::string> Instance::render(const Json& chat) const {
  if (!text_.chat) return error(ErrorKind::not_found, "chat template: none in the model: want one");
  const Json *messages = chat.find("messages"), *extra = chat.find("extra");
  if (messages == nullptr) return error(ErrorKind::invalid, "messages: are missing: want an array of objects");
  ChatInput input;
  input.messages = *messages;
  input.special_tokens = text_.special_tokens;
  if (extra != nullptr) input.extra = *extra;
  return text_.chat->render(input);
}

Result<std::vector<int32_t>> Instance::read_answer(const Json& reading) {
  TRY(const std::string prompt, text_of(reading, "prompt", ""));
  if (!is_utf8(prompt)) return error(ErrorKind::invalid, "the prompt is not UTF-8: want text");
  std::vector<std::string> stops;
  if (const Json* stop = reading.find("stop")) {
    for (const Json& one : stop->is_array() ? stop->as_array() : Json::Array{*stop}) {
      if (!one.is_string()) return error(ErrorKind::invalid, "stop: found ", write_json(one), ": want strings");
      stops.push_back(one.as_string());
    }
  }
  const Json* special = reading.find("add_special");
  const bool add = special != nullptr && special->is_bool() && special->as_bool();
  reader_ = std::make_unique<AnswerReader>(text_, prompt, std::move(stops));
  return text_.tokenizer.encode(prompt, {.add_special = add});
}

Result<Json> Instance::read_tokens(std::span<const int32_t> tokens) {
  if (!reader_) return error(ErrorKind::invalid, "read_tokens: no answer is read: want read_answer first");
  for (const int32_t token : tokens) {
    if (token >= 0 && token < text_.tokenizer.size()) continue;
    return error(ErrorKind::invalid, "token ", token, ": want one below ", text_.tokenizer.size());
  }
  return reader_->read(tokens);
}

Status Instance::submit(const Json& json) {
  if (running_) return error(ErrorKind::invalid, "submit: an answer is being made: want it collected first");
  if (!loaded_) return error(ErrorKind::invalid, "submit: the model is not loaded: want sluice_load until it is");
  Request request;
  TRY(request.prompt, numbers_of<int32_t>(json, "prompt"));
  TRY(request.max_tokens, number_of<uint32_t>(json, "max_tokens", 0));
  TRY(request.stop_tokens, numbers_of<int32_t>(json, "stop_tokens"));
  TRY(request.logits_at, numbers_of<uint32_t>(json, "logits_at"));
  TRY(request.message_ends, numbers_of<uint32_t>(json, "message_ends"));
  TRY(request.sequence, number_of<uint32_t>(json, "sequence", 0));
  if (const Json* keep = json.find("keep_sequence")) request.keep_sequence = keep->is_bool() && keep->as_bool();
  request.sampling.temperature = 0;
  TRY_STATUS(read_sampling(json, "submit", model_.facts().vocabulary, request.sampling));
  TRY(running_, engine_->submit(std::move(request)));
  return {};
}

void Instance::cancel() {
  if (running_) engine_->cancel(*running_);
}

Result<Json> Instance::collect() {
  if (!running_) return error(ErrorKind::invalid, "collect: no answer is being made: want one submitted");
  TRY(Progress progress, engine_->collect(*running_));
  if (progress.finish != Finish::running) running_.reset();
  if (progress.failure) return *std::move(progress.failure);
  // What could not be read of a file went into the answer as zeros.
  if (const Status whole = model_.checkpoint().check_unchanged(); !whole) {
    cancel();
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
  const Result<bool> saved = engine_->save_without_waiting(sequence, kStatePath);
  saving_ = saved && !*saved;
  if (!saved) return saved.error();
  if (saving_) return std::optional<std::string>();
  auto state = read_file(kStatePath, kHeapBytes);
  memory_files().erase(kStatePath);
  if (!state) return state.error();
  return std::optional<std::string>(*std::move(state));
}

Result<Json> Instance::restore(std::span<const std::byte> state) {
  // The engine waits for what is under way, and on a page's GPU nothing ends meanwhile.
  if (gpu_ != nullptr && (running_ || saving_))
    return error(ErrorKind::invalid, "restore: the GPU is at work on an answer or a state: want that to end first");
  auto* const bytes = static_cast<std::byte*>(std::malloc(state.size() + 1));  // never of nothing
  if (bytes == nullptr) return error(ErrorKind::out_of_memory, "state: no room for ", state.size(), " bytes");
  std::copy(state.begin(), state.end(), bytes);
  memory_files()[kStatePath] = std::make_shared<const MemoryBlock>("state", bytes, state.size());
  std::string note;
  const Result<SequenceId> restored = engine_->load(kStatePath, &note);
  memory_files().erase(kStatePath);
  if (!restored) return restored.error();
  TRY(const History history, engine_->history(*restored));
  std::vector<int32_t> tokens;
  tokens.reserve(history.size());
  for (const auto& entry : history) tokens.push_back(entry.token);
  return Json(Json::Object{{"sequence", static_cast<int64_t>(*restored)}, {"tokens", json_of(tokens)}, {"note", note}});
}

Json Instance::stats() const {
  const EngineStats stats = engine_->stats();
  const DispatchCounts counts = engine_->dispatch_counts().value_or(DispatchCounts{});
  Json::Array memory;
  for (const BudgetLine& line : budget_.lines())
    memory.emplace_back(Json::Object{{"domain", domain_name(line.domain)},
                                     {"purpose", purpose_name(line.purpose)},
                                     {"bytes", static_cast<int64_t>(line.bytes)},
                                     {"peak", static_cast<int64_t>(line.peak)}});
  Json experts;
  if (const std::optional<ExpertStats> found = engine_->expert_stats())
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

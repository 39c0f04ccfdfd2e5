#include "wasm/instance.h"

#include <algorithm>
#include <limits>

#include "base/memory_files.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"

namespace sluice::wasm {
namespace {

constexpr uint64_t kHeapBytes = uint64_t{1} << 32;
// Stack, code's data, vocabulary and what the allocator loses.
constexpr uint64_t kReserveBytes = uint64_t{256} << 20;

// What the files leave of the module's memory.
uint64_t memory_left() {
  uint64_t held = kReserveBytes;
  for (const auto& [name, block] : memory_files()) held += block->bytes().size();
  return kHeapBytes - std::min(kHeapBytes, held);
}

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

Result<std::unique_ptr<Device>> make_device(const std::string& name, ThreadPool& pool) {
  if (name == "cpu") return make_cpu_device({.pool = &pool});
  if (name == "reference") return make_reference_device();
  return error(ErrorKind::unsupported, "device ", printable(name), ": this module has no such: want cpu or reference");
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
  TRY(const std::string device, text_of(options, "device", "cpu"));
  TRY(const std::string arithmetic, text_of(options, "arithmetic", "fast"));
  EngineOptions engine;
  TRY(engine.arithmetic, arithmetic_of(arithmetic));
  TRY(engine.cache, cache_of(options));
  TRY(engine.context, number_of<uint32_t>(options, "context", 0));

  TRY(Checkpoint checkpoint, open_checkpoint(path));
  TRY(Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  TRY(TextParts text, open_text(model));
  std::unique_ptr<Instance> opened(new Instance(std::move(model), std::move(text)));
  opened->budget_.set_limit(Domain::host, memory_left());
  TRY(opened->device_, make_device(device, opened->pool_));
  TRY(opened->engine_, Engine::create(opened->model_, *opened->device_, opened->budget_, engine));
  return opened;
}

Json Instance::describe() const {
  return Json::Object{{"name", model_.facts().name},
                      {"numerics_id", engine_->numerics_id()},
                      {"vocabulary", int64_t{model_.facts().vocabulary}},
                      {"context", int64_t{engine_->context()}}};
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

Status Instance::submit(const Json& json) {
  if (running_) return error(ErrorKind::invalid, "submit: an answer is being made: want it collected first");
  Request request;
  TRY(request.prompt, numbers_of<int32_t>(json, "prompt"));
  TRY(request.logits_at, numbers_of<uint32_t>(json, "logits_at"));
  TRY(request.max_tokens, number_of<uint32_t>(json, "max_tokens", 0));
  TRY(request.sampling.temperature, number_of<float>(json, "temperature", 0));
  TRY(const uint32_t seed, number_of<uint32_t>(json, "seed", 0));
  request.sampling.seed = seed;
  TRY(running_, engine_->submit(std::move(request)));
  return {};
}

Result<Json> Instance::collect() {
  if (!running_) return error(ErrorKind::invalid, "collect: no answer is being made: want one submitted");
  TRY(Progress progress, engine_->collect(*running_));
  if (progress.finish != Finish::running) running_.reset();
  if (progress.failure) return *std::move(progress.failure);
  logits_ = std::move(progress.logits);
  Json::Array tokens;
  for (const SampleResult& token : progress.tokens) tokens.emplace_back(int64_t{token.token});
  return Json(Json::Object{{"finished", !running_.has_value()}, {"tokens", std::move(tokens)}});
}

}  // namespace sluice::wasm

#include "wasm/sluice.h"

#include <cstdlib>
#include <cstring>

#include "base/files/memory_files.h"
#include "base/page_threads.h"
#include "wasm/instance.h"

namespace sluice::wasm {
namespace {

// A call that has to be made again when the device has done something.
constexpr int kInFlight = 2;

// What the last call answered.
std::string& reply() {
  static std::string text;
  return text;
}

int fail(const Error& why) {
  reply() = why.text;
  return 0;
}
int answer(std::string text) {
  reply() = std::move(text);
  return 1;
}
int answer(std::span<const std::byte> bytes) {
  return answer(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}
int answer(const Json& json) { return answer(write_json(json)); }
int answer(const sluice::Status& status) { return status ? answer(std::string()) : fail(status.error()); }
template <class T>
int answer(const Result<T>& result) {
  return result ? answer(*result) : fail(result.error());
}

}  // namespace
}  // namespace sluice::wasm

using sluice::Json;
using sluice::Result;
using sluice::wasm::answer;
using sluice::wasm::Instance;
using sluice::wasm::kInFlight;
using sluice::wasm::reply;

// NOLINTBEGIN(cppcoreguidelines-no-malloc): the host's memory has no type
void* sluice_allocate(size_t bytes) { return std::malloc(bytes); }
void sluice_free(void* bytes) { std::free(bytes); }
// NOLINTEND(cppcoreguidelines-no-malloc)

void sluice_add_file(const char* path, size_t path_bytes, uint32_t number, double size) {
  const std::string name(path, path_bytes);
  sluice::memory_files()[name] = sluice::make_page_file(name, number, static_cast<uint64_t>(size));
}
void sluice_remove_file(const char* path, size_t path_bytes) {
  sluice::memory_files().erase(std::string(path, path_bytes));
}

const void* sluice_reply() { return reply().data(); }
size_t sluice_reply_bytes() { return reply().size(); }

void sluice_expect_threads(uint32_t threads) { sluice::expect_page_threads(threads); }
void sluice_work(uint32_t thread) { sluice::work_as_page_thread(thread); }
void sluice_fail_threads() { sluice::fail_page_threads(); }

int sluice_inspect(const char* options, size_t bytes) {
  const auto inspect = [&]() -> Result<Json> {
    TRY(const Json json, sluice::parse_json({options, bytes}, "inspect"));
    return sluice::wasm::inspect(json);
  };
  return answer(inspect());
}

Instance* sluice_open(const char* options, size_t bytes) {
  const auto open = [&]() -> Result<std::unique_ptr<Instance>> {
    TRY(const Json json, sluice::parse_json({options, bytes}, "open"));
    return Instance::open(json);
  };
  auto opened = open();
  if (!opened) {
    reply() = opened.error().text;
    return nullptr;
  }
  answer((*opened)->describe());
  return (*opened).release();  // the host's now, until it closes it
}
int sluice_load(Instance* instance) { return answer(instance->load()); }
void sluice_close(Instance* instance) { delete instance; }  // NOLINT(cppcoreguidelines-owning-memory)

int sluice_encode(Instance* instance, const char* text, size_t bytes) {
  const std::vector<int32_t> tokens = instance->encode({text, bytes});
  return answer(std::as_bytes(std::span(tokens)));
}
int sluice_decode(Instance* instance, const int32_t* tokens, size_t count) {
  return answer(instance->decode({tokens, count}));
}
int sluice_render(Instance* instance, const char* chat, size_t bytes) {
  const auto render = [&]() -> Result<std::string> {
    TRY(const Json json, sluice::parse_json({chat, bytes}, "render"));
    return instance->render(json);
  };
  return answer(render());
}

int sluice_add_picture(Instance* instance, const uint8_t* pixels, size_t bytes, uint32_t width, uint32_t height,
                       uint32_t max_rows) {
  return answer(instance->add_picture({.bytes = {pixels, bytes}, .width = width, .height = height}, max_rows));
}
int sluice_add_film(Instance* instance, const uint8_t* pixels, size_t bytes, uint32_t width, uint32_t height,
                    uint32_t frames) {
  return answer(instance->add_film({.bytes = {pixels, bytes}, .width = width, .height = height, .frames = frames}));
}
int sluice_add_sound(Instance* instance, const float* samples, size_t count, uint32_t rate) {
  return answer(instance->add_sound({samples, count}, rate));
}
void sluice_remove_media(Instance* instance, uint32_t number) { instance->remove_media(number); }

int sluice_adapters(Instance* instance, const char* change, size_t bytes) {
  const auto all = [&]() -> Result<Json> {
    TRY(const Json json, sluice::parse_json({change, bytes}, "adapters"));
    return instance->change_adapters(json);
  };
  return answer(all());
}

int sluice_begin(Instance* instance, const char* turn, size_t bytes) {
  const auto begin = [&]() -> sluice::Status {
    TRY(const Json json, sluice::parse_json({turn, bytes}, "begin"));
    return instance->begin(json);
  };
  return answer(begin());
}
int sluice_go_on(Instance* instance) {
  const Result<std::optional<Json>> news = instance->go_on();
  if (!news) return answer(sluice::Status(news.error()));
  return *news ? answer(**news) : kInFlight;
}
uint32_t sluice_sequence(Instance* instance) { return static_cast<uint32_t>(instance->sequence()); }
void sluice_adopt(Instance* instance, uint32_t sequence) { instance->adopt(sequence); }

int sluice_submit(Instance* instance, const char* request, size_t bytes) {
  const auto submit = [&]() -> sluice::Status {
    TRY(const Json json, sluice::parse_json({request, bytes}, "submit"));
    return instance->submit(json);
  };
  return answer(submit());
}
int sluice_step(Instance* instance) {
  switch (instance->step()) {
    case sluice::StepState::idle: return 0;
    case sluice::StepState::in_flight: return 1;
    case sluice::StepState::progressed: return 2;
  }
  __builtin_unreachable();
}
void sluice_cancel(Instance* instance) { instance->cancel(); }
int sluice_collect(Instance* instance) { return answer(instance->collect()); }
int sluice_logits(Instance* instance) { return answer(std::as_bytes(std::span(instance->logits()))); }

int sluice_examples(Instance* instance, const char* options, size_t bytes) {
  const auto look = [&]() -> Result<Json> {
    TRY(const Json json, sluice::parse_json({options, bytes}, "examples"));
    return instance->look_at_examples(json);
  };
  return answer(look());
}
int sluice_train(Instance* instance, const char* options, size_t bytes) {
  const auto begin = [&]() -> Result<Json> {
    TRY(const Json json, sluice::parse_json({options, bytes}, "train"));
    return instance->begin_training(json);
  };
  return answer(begin());
}
int sluice_train_on(Instance* instance) {
  const Result<std::optional<Json>> news = instance->train_on();
  if (!news) return answer(sluice::Status(news.error()));
  return *news ? answer(**news) : kInFlight;
}
void sluice_stop_training(Instance* instance) { instance->stop_training(); }
int sluice_trained(Instance* instance, const char* name, size_t bytes) {
  return answer(instance->trained_file({name, bytes}));
}
void sluice_end_training(Instance* instance) { instance->end_training(); }

int sluice_save(Instance* instance, uint32_t sequence) {
  Result<std::optional<std::string>> state = instance->save(sequence);
  if (!state) return answer(sluice::Status(state.error()));
  if (!*state) return kInFlight;
  return answer(**std::move(state));
}
int sluice_restore(Instance* instance, const void* state, size_t bytes) {
  return answer(instance->restore({static_cast<const std::byte*>(state), bytes}));
}
int sluice_stats(Instance* instance) { return answer(instance->stats()); }

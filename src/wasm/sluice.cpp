#include "wasm/sluice.h"

#include <cstdlib>
#include <cstring>

#include "base/memory_files.h"
#include "wasm/instance.h"

namespace sluice::wasm {
namespace {

// What the last call answered.
std::string& reply() {
  static std::string text;
  return text;
}

int answer(std::string text) {
  reply() = std::move(text);
  return 1;
}
int answer(std::span<const std::byte> bytes) {
  return answer(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}
int answer(const Json& json) { return answer(write_json(json)); }
template <class T>
int answer(const Result<T>& result) {
  if (result) return answer(*result);
  reply() = result.error().text;
  return 0;
}

}  // namespace
}  // namespace sluice::wasm

using sluice::Json;
using sluice::Result;
using sluice::wasm::answer;
using sluice::wasm::Instance;
using sluice::wasm::reply;

// NOLINTBEGIN(cppcoreguidelines-no-malloc): the host's memory has no type
void* sluice_allocate(size_t bytes) { return std::malloc(bytes); }
void sluice_free(void* bytes) { std::free(bytes); }
// NOLINTEND(cppcoreguidelines-no-malloc)

void sluice_add_file(const char* path, size_t path_bytes, void* bytes, size_t size) {
  sluice::memory_files()[std::string(path, path_bytes)] =
      std::make_shared<const sluice::MemoryBlock>(static_cast<std::byte*>(bytes), size);
}
void sluice_remove_file(const char* path, size_t path_bytes) {
  sluice::memory_files().erase(std::string(path, path_bytes));
}

const void* sluice_reply() { return reply().data(); }
size_t sluice_reply_bytes() { return reply().size(); }

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

int sluice_submit(Instance* instance, const char* request, size_t bytes) {
  const auto submit = [&]() -> Result<std::string> {
    TRY(const Json json, sluice::parse_json({request, bytes}, "submit"));
    TRY_STATUS(instance->submit(json));
    return std::string();
  };
  return answer(submit());
}
void sluice_step(Instance* instance) { instance->step(); }
int sluice_collect(Instance* instance) { return answer(instance->collect()); }
int sluice_logits(Instance* instance) { return answer(std::as_bytes(std::span(instance->logits()))); }

#include "devices.h"

#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "tests/device/webgpu/library.h"

namespace sluice {

const char* AnswerDevice::reason_against(Line line) const {
  for (const auto& [lacking, reason] : without)
    if (lacking == line) return reason;
  return nullptr;
}

bool AnswerDevice::is_here() const {
  ThreadPool pool(1);
  return open(pool) != nullptr;
}

std::span<const AnswerDevice> answer_devices() {
  static const std::vector<AnswerDevice> devices = {
      {.name = "reference",
       .open = [](ThreadPool&) { return make_reference_device(); },
       .arithmetics = {Arithmetic::exact},
       .without = {{Line::threads, "the reference device has one thread"},
                   {Line::crowds, "the reference device takes one row at a time"},
                   {Line::long_prompts, "the reference device takes one row at a time"}}},
      {.name = "cpu",
       .open = [](ThreadPool& pool) { return make_cpu_device({.pool = &pool}); },
       .arithmetics = {Arithmetic::exact, Arithmetic::fast}},
      // One for the whole program: what costs is to compile its kernels.
      {.name = "webgpu",
       .open = [](ThreadPool&) { return shared_webgpu_device(); },
       .absent = "webgpu: no library or no GPU here: tools/fetch_webgpu.sh",
       .arithmetics = {Arithmetic::exact, Arithmetic::fast},
       .without = {{Line::threads, "a GPU computes, not the pool's threads"},
                   {Line::repacking, "weights have one layout on the GPU"}},
       .slow_steps = true},
  };
  return devices;
}

}  // namespace sluice

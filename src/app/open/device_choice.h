// What --device auto takes: the fastest device that is proven and in whose memory the model lies whole.
//
// A GPU is taken if its driver says that it is one, the model fits, and its kernels multiply the model's formats as the
// reference device does; a discrete one before an integrated one is its library's choice. Speeds are not measured,
// since a choice that differs from run to run would give other answers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace sluice {

// A GPU, and how more is found out about it: each step takes longer, and is only taken where those before it held.
struct GpuCandidate {
  std::string name{};     // as --device takes it
  std::string absent{};   // why it cannot be here, seen from outside; "": it may be
  bool expected = false;  // absent without surprise: no GPU is built in, or an option asks for the processor
  struct Opened {
    std::string description{};
    bool is_gpu = false, is_software = false;  // as webgpu::Adapter has them
  };
  std::function<Result<Opened>()> open{};
  std::function<Status()> fits{};
  std::function<Status()> proven{};
};

struct DeviceChoice {
  std::string name{};  // of a candidate, or "cpu"
  std::string why{};   // of "cpu": what keeps each GPU from being taken
  bool plain = false;  // "cpu" because there is no GPU, or nothing for it to do: no news to anybody
};
// `model_bytes`: of its weights in the file.
DeviceChoice choose_device(std::span<const GpuCandidate> gpus, uint64_t model_bytes);

// Of a smaller model a processor has given its answer before a GPU has been opened and has its kernels.
inline constexpr uint64_t kLeastGpuModel = uint64_t{256} << 20;

}  // namespace sluice

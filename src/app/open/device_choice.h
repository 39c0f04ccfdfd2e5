// The choice of --device auto: a GPU, if it is proven and holds the whole model, else the processor.
//
// A GPU is taken if its driver says that it is one, the model fits, and its kernels multiply the model's formats as the
// reference device does. Dawn prefers a discrete GPU to an integrated one. No speed is measured, because a choice that
// differs between runs would give other answers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace sluice {

// A GPU and the steps that test it. Each step takes longer than the one before and runs only if that one held.
struct GpuCandidate {
  std::string name{};     // as --device takes it
  std::string absent{};   // the reason why it cannot exist here, found without opening it; "": it may exist
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
  std::string why{};   // for "cpu": the reason why no GPU was taken
  bool plain = false;  // "cpu" because there is no GPU, or nothing for it to do: not worth a line
};
// `model_bytes`: the size of its weights in the file.
DeviceChoice choose_device(std::span<const GpuCandidate> gpus, uint64_t model_bytes);

// For a smaller model, the processor has answered before a GPU is open and has compiled its kernels.
inline constexpr uint64_t kLeastGpuModel = uint64_t{256} << 20;

}  // namespace sluice

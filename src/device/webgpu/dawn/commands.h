// Command streams as Dawn's command buffers. The commands that the host expects next are encoded while the GPU computes
// what came before them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "device/webgpu/dawn/pipelines.h"

namespace sluice::webgpu {

// Where the bytes to be read back lie until the host can map them.
struct Staging {
  dawn::Buffer buffer = nullptr;
  uint64_t bytes = 0;
};

// What commands call buffers and pipelines by number.
struct CommandObjects {
  const GpuDevice& gpu;
  const std::vector<dawn::Buffer>& buffers;
  const Pipelines& pipelines;
};

// Encodes command by command. Each command buffer that is full, and the last one, goes to `take`, which owns it from
// then on: the GPU can compute the first while the others are still being encoded. Reads end in `staging`, one behind
// another. A command buffer that Dawn refuses is null.
using TakeCommands = std::function<void(dawn::Commands)>;
void encode(const CommandObjects& objects, std::span<const uint32_t> words, std::span<const HostRead> reads,
            const Staging& staging, const TakeCommands& take);

// Commands that are finished and wait to be submitted.
struct ExpectedCommands {
  std::vector<uint32_t> words{};
  std::vector<HostRead> reads{};
  std::vector<dawn::Commands> commands{};
  Staging staging{};
  // Whether they are those, wherever the reads are brought to.
  bool is(const CommandStream& other, std::span<const HostRead> other_reads) const;
};

}  // namespace sluice::webgpu

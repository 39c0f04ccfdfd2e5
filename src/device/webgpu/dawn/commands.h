// Command streams as Dawn's command buffers. While the GPU computes one submission, the expected next one is encoded.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "device/webgpu/dawn/pipelines.h"

namespace sluice::webgpu {

// A buffer for bytes to read back, until the host can map it.
struct Staging {
  dawn::Buffer buffer = nullptr;
  uint64_t bytes = 0;
};

// The buffers and pipelines that commands name by number.
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

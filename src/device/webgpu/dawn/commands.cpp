#include "device/webgpu/dawn/commands.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::webgpu {
namespace {

// The most dispatches of a command buffer: of the first one, for which the GPU waits, and of the others.
constexpr uint32_t kFirstDispatches = 8, kMostDispatches = 48;
constexpr PipelineId kNoPipeline = ~PipelineId{0};

}  // namespace

void encode(const CommandObjects& objects, std::span<const uint32_t> words, std::span<const HostRead> reads,
            const Staging& staging, const TakeCommands& take) {
  const dawn::Library& api = objects.gpu.api();
  dawn::Encoder encoder = api.create_encoder(objects.gpu.device, nullptr);
  dawn::Pass pass = nullptr;
  const auto end_pass = [&] {
    if (pass == nullptr) return;
    api.end_pass(pass);
    api.release_pass(pass);
    pass = nullptr;
  };
  const auto wide = [&](size_t i) { return uint64_t{words[i + 1]} << 32 | words[i]; };
  uint32_t dispatches = 0, most = kFirstDispatches;
  for (PipelineId last = kNoPipeline; !words.empty();) {
    if (words[0] == CommandStream::kDispatch) {
      if (dispatches == most) {
        end_pass();
        take(objects.gpu.finished(encoder));
        encoder = api.create_encoder(objects.gpu.device, nullptr);
        dispatches = 0;
        most = kMostDispatches;
      }
      if (pass == nullptr) {
        pass = api.begin_pass(encoder, nullptr);
        last = kNoPipeline;
      }
      const dawn::Pipeline pipeline = objects.pipelines[words[1]];
      CHECK(pipeline != nullptr);
      if (words[1] != last) api.set_pipeline(pass, pipeline);
      last = words[1];
      api.set_bind_group(pass, 0, objects.pipelines.binding(words[2]), 1, &words[3]);
      api.dispatch(pass, words[4], words[5], 1);
      ++dispatches;
      words = words.subspan(CommandStream::kDispatchWords);
    } else {
      end_pass();
      api.copy(encoder, objects.buffers[words[1]], wide(3), objects.buffers[words[2]], wide(5), wide(7));
      words = words.subspan(CommandStream::kCopyWords);
    }
  }
  end_pass();
  uint64_t at = 0;
  for (const HostRead& read : reads) {
    if (read.into.empty()) continue;
    api.copy(encoder, objects.buffers[read.buffer], read.offset, staging.buffer, at, read.into.size());
    at += read.into.size();
  }
  take(objects.gpu.finished(encoder));
}

bool ExpectedCommands::is(const CommandStream& other, std::span<const HostRead> other_reads) const {
  const auto same = [](const HostRead& a, const HostRead& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.into.size() == b.into.size();
  };
  return std::ranges::equal(words, other.words()) && std::ranges::equal(reads, other_reads, same);
}

}  // namespace sluice::webgpu

#include "device/webgpu/kernels/copying.h"

#include <algorithm>

namespace sluice::webgpu {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 29;  // so large that caches do not matter
constexpr uint64_t kGroupBytes = 16 * 1024;         // of a workgroup

constexpr const char* kCopy = R"(
@group(0) @binding(0) var<storage, read_write> to: array<vec4u>;
@group(0) @binding(1) var<storage, read> source: array<vec4u>;
@group(0) @binding(2) var<uniform> unused: vec4u;
@group(0) @binding(3) var<uniform> also_unused: vec4u;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  for (var i = 0u; i < 4u; i++) {
    let at = (group.x * 4u + i) * 256u + thread;
    to[at] = source[at];
  }
}
)";

}  // namespace

Copying::Copying(Host& host) : host_(host), copies_(host.adapter().is_software ? 4 : 20) {
  const uint64_t most = host.adapter().is_software ? kMostBytes / 16 : kMostBytes;
  bytes_ = std::min({most, host.adapter().binding_bytes, host.adapter().workgroups * kGroupBytes});
  bytes_ = bytes_ / kGroupBytes * kGroupBytes;
  to_ = host.buffer(bytes_, BufferUse::storage);
  source_ = host.buffer(bytes_, BufferUse::storage);
  uniforms_ = host.buffer(256, BufferUse::uniform);
  const PipelineId pipeline =
      host.pipeline({.name = "copy", .wgsl = kCopy, .storage = {Access::read_write, Access::read}});
  const BoundRange storage[] = {{to_, 0, bytes_}, {source_, 0, bytes_}}, words = {uniforms_, 0, 16};
  binding_ = host.bind(pipeline, storage, words, words);
  for (uint64_t i = 0; i < copies_; ++i)
    commands_.dispatch(pipeline, binding_, 0, static_cast<uint32_t>(bytes_ / kGroupBytes), 1);
}

Copying::~Copying() {
  host_.drop_binding(binding_);
  for (const BufferId buffer : {to_, source_, uniforms_}) host_.drop_buffer(buffer);
}

}  // namespace sluice::webgpu

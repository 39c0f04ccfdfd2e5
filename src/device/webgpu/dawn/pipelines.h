// A host's pipelines and bindings. Dawn compiles kernels on its own threads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/webgpu/dawn/gpu_device.h"
#include "device/webgpu/host.h"

namespace sluice::webgpu {

class Pipelines {
 public:
  explicit Pipelines(GpuDevice& gpu) : gpu_(gpu) {}
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;
  ~Pipelines();  // none is under way

  PipelineId make(const PipelineText& text);
  // Of the buffers: those of storage, then the two of uniforms, the first with a dynamic offset.
  struct BufferRange {
    dawn::Buffer buffer = nullptr;
    uint64_t offset = 0, bytes = 0;
  };
  BindingId bind(PipelineId pipeline, const std::vector<BufferRange>& buffers);
  void drop_binding(BindingId id);
  void drop_bindings();

  dawn::Pipeline operator[](PipelineId id) const { return pipelines_[id]->pipeline; }  // null: not made
  dawn::BindGroup binding(BindingId id) const { return bindings_[id]; }
  uint32_t count() const { return static_cast<uint32_t>(pipelines_.size()); }
  uint32_t under_way() const { return under_way_; }

 private:
  struct Own {
    Pipelines* all = nullptr;
    std::string name{};
    dawn::Pipeline pipeline = nullptr;
    dawn::BindGroupLayout layout = nullptr;  // owned by layouts_
  };
  struct Layout {
    dawn::BindGroupLayout group = nullptr;
    dawn::PipelineLayout pipeline = nullptr;
  };
  Layout& layout(const std::vector<Access>& storage);

  GpuDevice& gpu_;
  std::vector<std::unique_ptr<Own>> pipelines_;
  std::map<std::string, PipelineId> by_text_;
  std::map<std::vector<Access>, Layout> layouts_;
  std::vector<dawn::BindGroup> bindings_;
  uint32_t under_way_ = 0;
};

}  // namespace sluice::webgpu

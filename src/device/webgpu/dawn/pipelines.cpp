#include "device/webgpu/dawn/pipelines.h"

#include <cstring>

#include "base/check.h"
#include "base/text.h"

namespace sluice::webgpu {
namespace {

dawn::StringView view(const std::string& text) { return {text.data(), text.size()}; }
dawn::StringView view(const char* text) { return {text, std::strlen(text)}; }

}  // namespace

Pipelines::~Pipelines() {
  drop_bindings();
  for (const auto& one : pipelines_)
    if (one->pipeline != nullptr) gpu_.api().release_pipeline(one->pipeline);
  for (const auto& [access, layout] : layouts_) {
    gpu_.api().release_pipeline_layout(layout.pipeline);
    gpu_.api().release_bind_group_layout(layout.group);
  }
}

Pipelines::Layout& Pipelines::layout(const std::vector<Access>& storage) {
  Layout& layout = layouts_[storage];
  if (layout.group != nullptr) return layout;
  std::vector<dawn::BindGroupLayoutEntry> entries(storage.size() + 2);
  for (uint32_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = i;
    if (i < storage.size())
      entries[i].buffer.type = storage[i] == Access::read ? dawn::kReadOnlyStorageBinding : dawn::kStorageBinding;
    else
      entries[i].buffer = {.type = dawn::kUniformBinding, .dynamic = i == storage.size() ? 1u : 0u};
  }
  const dawn::BindGroupLayoutDescriptor group{.entry_count = entries.size(), .entries = entries.data()};
  layout.group = gpu_.api().create_bind_group_layout(gpu_.device, &group);
  const dawn::PipelineLayoutDescriptor pipeline{.layout_count = 1, .layouts = &layout.group};
  layout.pipeline = gpu_.api().create_pipeline_layout(gpu_.device, &pipeline);
  return layout;
}

PipelineId Pipelines::make(const PipelineText& text) {
  const auto [found, is_new] = by_text_.try_emplace(text.wgsl, static_cast<PipelineId>(pipelines_.size()));
  if (!is_new) return found->second;
  CHECK(text.storage.size() <= kStorageBuffers);
  pipelines_.push_back(std::make_unique<Own>());
  Own& own = *pipelines_.back();
  own.all = this;
  own.name = text.name;
  if (gpu_.failure) return found->second;
  const Layout& layouts = layout(text.storage);
  own.layout = layouts.group;
  dawn::WgslSource source{.code = view(text.wgsl)};
  const dawn::Named named{.next = &source.chain, .label = view(text.name)};
  const dawn::ShaderModule module = gpu_.api().create_shader_module(gpu_.device, &named);
  dawn::PipelineDescriptor descriptor{.label = view(text.name), .layout = layouts.pipeline};
  descriptor.compute.module = module;
  descriptor.compute.entry = view("main");
  ++under_way_;
  gpu_.api().create_pipeline(gpu_.device, &descriptor,
                             {.callback =
                                  [](uint32_t status, dawn::Pipeline made, dawn::StringView message, void* to, void*) {
                                    auto& pipeline = *static_cast<Own*>(to);
                                    --pipeline.all->under_way_;
                                    pipeline.pipeline = made;
                                    if (status != dawn::kSuccess)
                                      pipeline.all->gpu_.fail(
                                          ErrorKind::unsupported,
                                          cat("webgpu: kernel ", pipeline.name, ": ", sentence(message)));
                                  },
                              .first = &own});
  gpu_.api().release_shader_module(module);
  return found->second;
}

BindingId Pipelines::bind(PipelineId pipeline, const std::vector<BufferRange>& buffers) {
  bindings_.push_back(nullptr);
  const auto id = static_cast<BindingId>(bindings_.size() - 1);
  if (gpu_.failure) return id;
  std::vector<dawn::BindGroupEntry> entries;
  entries.reserve(buffers.size());
  for (const BufferRange& range : buffers)
    entries.push_back({.binding = static_cast<uint32_t>(entries.size()),
                       .buffer = range.buffer,
                       .offset = range.offset,
                       .bytes = range.bytes});
  const dawn::BindGroupDescriptor descriptor{
      .layout = pipelines_[pipeline]->layout, .entry_count = entries.size(), .entries = entries.data()};
  bindings_[id] = gpu_.api().create_bind_group(gpu_.device, &descriptor);
  return id;
}

void Pipelines::drop_binding(BindingId id) {
  if (bindings_[id] != nullptr) gpu_.api().release_bind_group(bindings_[id]);
  bindings_[id] = nullptr;
}

void Pipelines::drop_bindings() {
  for (BindingId id = 0; id < bindings_.size(); ++id) drop_binding(id);
}

}  // namespace sluice::webgpu

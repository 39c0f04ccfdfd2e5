// A host that hands all it is asked for on to another; what is made of it changes some of that.
#pragma once

#include <memory>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

class ForwardingHost : public Host {
 public:
  explicit ForwardingHost(std::unique_ptr<Host> host) : host_(std::move(host)) {}

  const Adapter& adapter() const override { return host_->adapter(); }
  BufferId buffer(uint64_t bytes, BufferUse use) override { return host_->buffer(bytes, use); }
  void drop_buffer(BufferId id) override { host_->drop_buffer(id); }
  PipelineId pipeline(const PipelineText& text) override { return host_->pipeline(text); }
  BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                 const BoundRange& fixed) override {
    return host_->bind(pipeline, storage, dynamic, fixed);
  }
  void drop_binding(BindingId id) override { host_->drop_binding(id); }
  void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) override {
    host_->upload(to, offset, bytes);
  }
  HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) override {
    return host_->submit(commands, reads);
  }
  void expect(const CommandStream& commands, std::span<const HostRead> reads) override {
    host_->expect(commands, reads);
  }
  std::optional<Status> poll(HostTicket ticket) override { return host_->poll(ticket); }
  Status settle() override { return host_->settle(); }
  const std::optional<Error>& failure() const override { return host_->failure(); }
  uint32_t pipelines() const override { return host_->pipelines(); }

 protected:
  Host& host() { return *host_; }

 private:
  std::unique_ptr<Host> host_;
};

}  // namespace sluice::webgpu

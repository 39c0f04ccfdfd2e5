// A host that plays nothing: it checks every call as WebGPU would and remembers what it was given, so that what the
// device emits is tested in milliseconds, without a library or a GPU. What it brings back are ones: a token, a choice
// that exists, a finite result.
//
// A call that breaks a rule is a failure of the test that made it, with the kernel's name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/webgpu/host.h"

namespace sluice::webgpu {

struct RecordedDispatch {
  PipelineId pipeline = 0;
  BindingId binding = 0;
  uint32_t x = 0, y = 0;
  bool operator==(const RecordedDispatch&) const = default;
};

// What outlives the hosts of a device.
struct Record {
  std::map<std::string, PipelineId> texts{};  // by the whole text
  std::vector<PipelineText> pipelines{};
  std::vector<RecordedDispatch> dispatches{};  // of all submissions
  uint64_t bindings = 0, submissions = 0;
  uint64_t uploaded = 0;              // bytes
  std::vector<uint64_t> read_behind;  // bytes uploaded before each submission that reads something
  uint64_t played_behind = 0;         // and before the first dispatch
};

class RecordingHost final : public Host {
 public:
  // One that does not wait is a page's.
  RecordingHost(const Adapter& adapter, std::shared_ptr<Record> record, bool waits = true);

  const Adapter& adapter() const override { return adapter_; }
  BufferId buffer(uint64_t bytes, BufferUse use) override;
  void drop_buffer(BufferId id) override;
  PipelineId pipeline(const PipelineText& text) override;
  BindingId bind(PipelineId pipeline, std::span<const BoundRange> storage, const BoundRange& dynamic,
                 const BoundRange& fixed) override;
  void drop_binding(BindingId id) override;
  void upload(BufferId to, uint64_t offset, std::span<const std::byte> bytes) override;
  HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) override;
  std::optional<Status> poll(HostTicket ticket) override;
  Status settle() override { return {}; }
  bool waits() const override { return waits_; }
  const std::optional<Error>& failure() const override { return failure_; }
  uint32_t pipelines() const override { return static_cast<uint32_t>(record_->pipelines.size()); }

 private:
  struct Buffer {
    uint64_t bytes = 0;
    BufferUse use{};
  };
  struct Binding {
    PipelineId pipeline = 0;
    BoundRange dynamic{};
  };

  const Buffer* find(BufferId id, const std::string& what) const;
  void check_range(const BoundRange& range, BufferUse use, uint64_t alignment, const std::string& what) const;
  void check_dispatch(const uint32_t* words);
  void check_copy(const uint32_t* words) const;

  Adapter adapter_;
  std::shared_ptr<Record> record_;
  bool waits_;
  std::map<BufferId, Buffer> buffers_;
  std::map<BindingId, Binding> bindings_;
  BufferId last_buffer_ = 0;
  BindingId last_binding_ = 0;
  HostTicket last_ticket_ = 0;
  std::set<HostTicket> under_way_;
  std::optional<Error> failure_;
};

// Opens hosts that write into one record.
class RecordingFactory final : public HostFactory {
 public:
  explicit RecordingFactory(const Adapter& adapter, bool waits = true)
      : adapter_(adapter), waits_(waits), record_(std::make_shared<Record>()) {}
  const Adapter& adapter() const override { return adapter_; }
  Result<std::unique_ptr<Host>> open() override {
    return std::unique_ptr<Host>(std::make_unique<RecordingHost>(adapter_, record_, waits_));
  }
  std::shared_ptr<Record> record() const { return record_; }

 private:
  Adapter adapter_;
  bool waits_;
  std::shared_ptr<Record> record_;
};

}  // namespace sluice::webgpu

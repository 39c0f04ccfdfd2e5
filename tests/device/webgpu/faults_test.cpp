// What becomes of requests when the GPU fails: each ends with one sentence, and the next engine on the same device
// computes as if nothing had been. The host is the real one until a fault is due.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/webgpu.h"
#include "engine/engine.h"
#include "forwarding_host.h"
#include "library.h"
#include "tests/engine/run_until_idle.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using webgpu::BufferId;
using webgpu::Host;
using webgpu::HostTicket;

// Does something to a host, or says what has become of it.
using Fault = std::function<std::optional<Error>(Host&)>;

// Of one host; the next ones have none.
struct FaultPlan {
  enum class At { buffer, submit } at{};
  int calls = 0;  // of that kind that go well before
  Fault fault{};
};

class FaultyHost final : public webgpu::ForwardingHost {
 public:
  FaultyHost(std::unique_ptr<Host> host, FaultPlan plan) : ForwardingHost(std::move(host)), plan_(std::move(plan)) {}

  BufferId buffer(uint64_t bytes, webgpu::BufferUse use) override {
    come_to(FaultPlan::At::buffer);
    return ForwardingHost::buffer(bytes, use);
  }
  HostTicket submit(const webgpu::CommandStream& commands, std::span<const webgpu::HostRead> reads) override {
    come_to(FaultPlan::At::submit);
    return failure_ ? 0 : ForwardingHost::submit(commands, reads);
  }
  std::optional<Status> poll(HostTicket ticket) override {
    return failure_ ? std::optional<Status>(*failure_) : ForwardingHost::poll(ticket);
  }
  Status settle() override { return failure_ ? Status(*failure_) : ForwardingHost::settle(); }
  const std::optional<Error>& failure() const override { return failure_ ? failure_ : ForwardingHost::failure(); }

 private:
  void come_to(FaultPlan::At call) {
    if (plan_.fault && plan_.at == call && plan_.calls-- == 0) failure_ = plan_.fault(host());
  }

  FaultPlan plan_;
  std::optional<Error> failure_;
};

class FaultyFactory final : public webgpu::HostFactory {
 public:
  FaultyFactory(std::unique_ptr<webgpu::HostFactory> factory, FaultPlan plan)
      : factory_(std::move(factory)), plan_(std::move(plan)) {}
  const webgpu::Adapter& adapter() const override { return factory_->adapter(); }
  Result<std::unique_ptr<Host>> open() override {
    TRY(std::unique_ptr<Host> host, factory_->open());
    return std::unique_ptr<Host>(std::make_unique<FaultyHost>(std::move(host), std::exchange(plan_, {})));
  }

 private:
  std::unique_ptr<webgpu::HostFactory> factory_;
  FaultPlan plan_;
};

class WebGpuFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
    Result<Checkpoint> checkpoint = open_checkpoint(std::string(SLUICE_TEST_DATA) + "/gemma4_moe");
    ASSERT_TRUE(checkpoint) << checkpoint.error().text;
    Result<Model> model = resolve(std::make_shared<const Checkpoint>(*std::move(checkpoint)));
    ASSERT_TRUE(model) << model.error().text;
    model_ = std::make_unique<Model>(*std::move(model));
  }

  static std::unique_ptr<Device> device_with(FaultPlan plan) {
    return make_webgpu_device(
        std::make_unique<FaultyFactory>(unwrap(webgpu::find_dawn({webgpu_test_library()})), std::move(plan)));
  }

  Result<std::unique_ptr<Engine>> open(Device& device) {
    return Engine::create(*model_, device, budget_, {.arithmetic = Arithmetic::fast, .context = 128});
  }

  static Progress answer(Engine& engine) {
    Request request;
    request.prompt = {2, 17, 40, 5};
    request.max_tokens = 6;
    const RequestId id = unwrap(engine.submit(std::move(request)));
    run_until_idle(engine, Waiting::yes);
    return unwrap(engine.collect(id));
  }

  void expect_answers(Device& device) {
    const Result<std::unique_ptr<Engine>> engine = open(device);
    ASSERT_TRUE(engine) << engine.error().text;
    const Progress progress = answer(**engine);
    EXPECT_EQ(progress.finish, Finish::length) << (progress.failure ? progress.failure->text : "");
    const Result<std::unique_ptr<Engine>> well = open(*webgpu_test_device());
    ASSERT_TRUE(well) << well.error().text;
    const Progress want = answer(**well);
    ASSERT_EQ(progress.tokens.size(), want.tokens.size());
    for (size_t i = 0; i < want.tokens.size(); ++i) EXPECT_EQ(progress.tokens[i].token, want.tokens[i].token);
  }

  // Of a fault in the midst of an answer.
  Error failure_of_answer(Device& device) {
    const std::unique_ptr<Engine> engine = unwrap(open(device));
    const Progress progress = answer(*engine);
    EXPECT_EQ(progress.finish, Finish::failed);
    EXPECT_LT(progress.tokens.size(), 6u);
    const Progress again = answer(*engine);
    EXPECT_EQ(again.finish, Finish::failed) << "its state is gone";
    CHECK(progress.failure && again.failure);
    EXPECT_EQ(again.failure->text, progress.failure->text);
    return *progress.failure;
  }

  std::unique_ptr<Model> model_;
  Budget budget_;
};

void expect_sentence(const std::string& text, const std::string& begin) {
  EXPECT_TRUE(text.starts_with(begin)) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 0) << text;
}

TEST_F(WebGpuFaults, ALostDeviceEndsTheRequestAndTheNextEngineHasANewOne) {
  const auto device = device_with({FaultPlan::At::submit, 3, [](Host&) {
                                     return error(ErrorKind::io, "webgpu: the GPU device was lost (pulled out)");
                                   }});
  const Error failure = failure_of_answer(*device);
  EXPECT_EQ(failure.kind, ErrorKind::io);
  EXPECT_EQ(failure.text, "webgpu: the GPU device was lost (pulled out)");
  expect_answers(*device);
}

TEST_F(WebGpuFaults, ARefusedKernelEndsTheRequestAndTheNextEngineWorks) {
  const auto device = device_with({FaultPlan::At::submit, 3, [](Host& host) -> std::optional<Error> {
                                     host.pipeline({.name = "broken", .wgsl = "fn main( {\n"});
                                     EXPECT_FALSE(host.settle());
                                     return std::nullopt;
                                   }});
  expect_sentence(failure_of_answer(*device).text, "webgpu: ");
  expect_answers(*device);
}

TEST_F(WebGpuFaults, AFailedAllocationRefusesTheModelAndTheNextEngineWorks) {
  const auto device = device_with({FaultPlan::At::buffer, 2, [](Host& host) -> std::optional<Error> {
                                     host.buffer(host.adapter().buffer_bytes * 2, webgpu::BufferUse::storage);
                                     return std::nullopt;
                                   }});
  const Result<std::unique_ptr<Engine>> refused = open(*device);
  ASSERT_FALSE(refused);
  expect_sentence(refused.error().text, "webgpu: ");
  expect_answers(*device);
}

}  // namespace
}  // namespace sluice

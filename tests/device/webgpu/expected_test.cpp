// Submissions that were expected, and so encoded before: they do what others do.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/webgpu.h"
#include "engine/engine.h"
#include "forwarding_host.h"
#include "library.h"
#include "tests/engine/run_until_idle.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kAddText = R"(
struct Params { first: u32, step: u32 }
struct Counts { a: u32 }
@group(0) @binding(0) var<storage, read_write> memory: array<u32>;
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(2) var<uniform> counts: Counts;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) group: vec3u) {
  memory[group.x] = memory[group.x] + p.step + counts.a;
}
)";

// A buffer of numbers, and a dispatch that adds 3 to the first of them.
class Expected : public testing::Test {
 protected:
  static constexpr uint32_t kNumbers = 200;

  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
    Result<std::unique_ptr<HostFactory>> factory = find_dawn({webgpu_test_library()});
    ASSERT_TRUE(factory);
    factory_ = *std::move(factory);
    Result<std::unique_ptr<Host>> host = factory_->open();
    ASSERT_TRUE(host) << host.error().text;
    host_ = *std::move(host);
    numbers_ = host_->buffer(kNumbers * 4, BufferUse::storage);
    const BufferId params = host_->buffer(256, BufferUse::uniform), counts = host_->buffer(16, BufferUse::uniform);
    const uint32_t step[2] = {0, 3};
    host_->upload(params, 0, std::as_bytes(std::span(step)));
    pipeline_ = host_->pipeline({.name = "add", .wgsl = kAddText, .storage = {Access::read_write}});
    const BoundRange memory{numbers_, 0, kNumbers * 4};
    binding_ = host_->bind(pipeline_, {&memory, 1}, {params, 0, 8}, {counts, 0, 16});
    ASSERT_TRUE(host_->settle());
  }

  CommandStream adding(uint32_t numbers, uint32_t times = 1) const {
    CommandStream commands;
    for (uint32_t i = 0; i < times; ++i) commands.dispatch(pipeline_, binding_, 0, numbers, 1);
    return commands;
  }
  HostRead all_to(std::vector<uint32_t>& into) const {
    into.assign(kNumbers, 0);
    return {numbers_, 0, std::as_writable_bytes(std::span(into))};
  }
  std::vector<uint32_t> submitted(const CommandStream& commands) {
    std::vector<uint32_t> numbers;
    const HostRead read = all_to(numbers);
    const HostTicket ticket = host_->submit(commands, {&read, 1});
    std::optional<Status> ended;
    while (!ended) ended = host_->poll(ticket);
    EXPECT_TRUE(*ended) << ended->error().text;
    return numbers;
  }
  void expect(const CommandStream& commands) {
    std::vector<uint32_t> gone;  // before what is expected is submitted
    const HostRead read = all_to(gone);
    host_->expect(commands, {&read, 1});
  }

  std::unique_ptr<HostFactory> factory_;
  std::unique_ptr<Host> host_;
  BufferId numbers_ = 0;
  PipelineId pipeline_ = 0;
  BindingId binding_ = 0;
};

// In several command buffers.
TEST_F(Expected, SubmissionsDoTheirWorkOnceAndWhenTheyAreSubmitted) {
  const CommandStream commands = adding(5, 130);
  for (uint32_t round = 1; round <= 3; ++round) {
    expect(commands);
    const std::vector<uint32_t> numbers = submitted(commands);
    EXPECT_EQ(numbers[4], round * 130 * 3);
    EXPECT_EQ(numbers[5], 0u);
  }
}

TEST_F(Expected, AnUnexpectedSubmissionIsEncodedAnew) {
  expect(adding(100));
  EXPECT_EQ(submitted(adding(7))[7], 0u);
  expect(adding(100));
  expect(adding(9));
  EXPECT_EQ(submitted(adding(9))[8], 3u);
  EXPECT_EQ(submitted(adding(9))[9], 0u) << "not expected: encoded now";
}

TEST_F(Expected, UploadsAndDroppedBuffersInBetweenHold) {
  const BufferId other = host_->buffer(64, BufferUse::storage);
  expect(adding(2));
  const uint32_t seven = 7;
  host_->upload(numbers_, 0, std::as_bytes(std::span(&seven, 1)));
  EXPECT_EQ(submitted(adding(2))[0], 10u);
  expect(adding(2));
  host_->drop_buffer(other);
  EXPECT_EQ(submitted(adding(2))[0], 13u);
  expect(adding(2));  // and never submitted
}

// Counts submissions that were expected.
class CountingHost final : public ForwardingHost {
 public:
  CountingHost(std::unique_ptr<Host> host, uint32_t& met) : ForwardingHost(std::move(host)), met_(met) {}
  HostTicket submit(const CommandStream& commands, std::span<const HostRead> reads) override {
    met_ += !expected_.empty() && std::ranges::equal(expected_, commands.words()) ? 1 : 0;
    expected_.clear();
    return ForwardingHost::submit(commands, reads);
  }
  void expect(const CommandStream& commands, std::span<const HostRead> reads) override {
    expected_.assign(commands.words().begin(), commands.words().end());
    ForwardingHost::expect(commands, reads);
  }

 private:
  uint32_t& met_;
  std::vector<uint32_t> expected_;
};

class CountingFactory final : public HostFactory {
 public:
  CountingFactory(std::unique_ptr<HostFactory> factory, uint32_t& met) : factory_(std::move(factory)), met_(met) {}
  const Adapter& adapter() const override { return factory_->adapter(); }
  Result<std::unique_ptr<Host>> open() override {
    TRY(std::unique_ptr<Host> host, factory_->open());
    return std::unique_ptr<Host>(std::make_unique<CountingHost>(std::move(host), met_));
  }

 private:
  std::unique_ptr<HostFactory> factory_;
  uint32_t& met_;
};

TEST_F(Expected, DecodeStepsAreTheExpectedOnes) {
  uint32_t met = 0;
  const auto device = make_webgpu_device(std::make_unique<CountingFactory>(std::move(factory_), met));
  const Result<Checkpoint> checkpoint = open_checkpoint(std::string(SLUICE_TEST_DATA) + "/gemma4_moe");
  ASSERT_TRUE(checkpoint) << checkpoint.error().text;
  const Result<Model> model = resolve(std::make_shared<const Checkpoint>(*checkpoint));
  ASSERT_TRUE(model) << model.error().text;
  Budget budget;
  const Result<std::unique_ptr<Engine>> engine =
      Engine::create(*model, *device, budget, {.arithmetic = Arithmetic::fast, .context = 128});
  ASSERT_TRUE(engine) << engine.error().text;
  Request request;
  request.prompt = {2, 17, 40, 5};
  request.max_tokens = 8;
  request.sampling.temperature = 0;
  const Result<RequestId> id = (*engine)->submit(std::move(request));
  ASSERT_TRUE(id);
  run_until_idle(**engine, Waiting::yes);
  EXPECT_EQ(met, 6u) << "the first token comes with the prompt, and nothing expects the first decode step";
}

}  // namespace
}  // namespace sluice::webgpu

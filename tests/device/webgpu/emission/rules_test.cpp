// What the emission tests go by can fail: each rule with a text or a call that breaks it.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "adapters.h"
#include "base/text.h"
#include "device/webgpu/kernel.h"
#include "kernel_text.h"
#include "recording_host.h"

namespace sluice::webgpu {
namespace {

using testing::Contains;
using testing::IsEmpty;

constexpr const char* kBody = R"(
const TILE = min(THREADS / 2u, 7u + 3u);
struct Pair { key: u32, at: vec3f }
var<workgroup> pairs: array<Pair, TILE>;  // 10 of 32 bytes
var<workgroup> count: atomic<u32>;
fn twice(x: f32) -> f32 { return x + x; }
@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
  let own = vec4f(1.0, 2.5e-3, 0x1p3f, twice(load(p.x)));
  for (var i = 0u; i < rows(); i++) { store(i, own.w); }
}
)";

PipelineText text_of(const std::string& body, uint32_t threads = 64) {
  Kernel kernel{.name = "test", .body = body, .threads = threads};
  kernel.params = {{"x", uint32_t{1}}};
  kernel.bindings = {{.name = "memory", .slot = {SlotKind::memory}, .access = Access::read_write}};
  return pipeline_text(kernel);
}
std::vector<std::string> faults(const std::string& body, uint32_t threads = 64) {
  return faults_of(text_of(body, threads), default_adapter());
}
std::string changed(const std::string& from, const std::string& to) {
  std::string body = kBody;
  const size_t at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return body.replace(at, from.size(), to);
}

TEST(KernelText, WithoutFaultsHasNone) {
  EXPECT_THAT(faults(kBody), IsEmpty());
  EXPECT_EQ(workgroup_bytes_of(text_of(kBody).wgsl), 320u + 16u);
}

TEST(KernelText, ShowsWhatWasNotReplaced) {
  EXPECT_THAT(faults(changed("i < rows()", "i < min(#, 3u)")), Contains("'#' is left in the text"));
  EXPECT_THAT(faults(changed("i < rows()", "i < OUTPUTS")), Contains("nothing declares OUTPUTS"));
  EXPECT_THAT(faults(changed("p.x)", "p.gate)")), Contains("nothing declares gate"));
}

TEST(KernelText, ShowsBracketsThatDoNotMatch) {
  EXPECT_THAT(faults(changed("own.w); }", "own.w; }")), Contains("'}' closes nothing"));
  EXPECT_THAT(faults(std::string(kBody) + "fn more() {"), Contains("a '}' is missing"));
}

TEST(KernelText, ShowsWhatIsDeclaredTwice) {
  EXPECT_THAT(faults(std::string(kBody) + "fn twice(x: f32) -> f32 { return x; }"),
              Contains("twice is declared twice"));
  EXPECT_THAT(faults(std::string(kBody) + "@compute @workgroup_size(1) fn main() {}"),
              Contains("2 functions main: want one"));
}

TEST(KernelText, ShowsReservedWords) {
  EXPECT_THAT(faults(std::string(kBody) + "fn more() { let set = 1u; }"), Contains("set is a reserved word"));
}

TEST(KernelText, ShowsWhatTheAdapterLacks) {
  EXPECT_THAT(faults(changed("array<Pair, TILE>", "array<Pair, 512>")),
              Contains("takes 16400 bytes of workgroup memory: the adapter has 16384"));
  EXPECT_THAT(faults(kBody, 512), Contains("workgroups of 512 threads: the adapter has at most 256"));
  EXPECT_THAT(faults(changed("x + x", "f32(f16(x))")), Contains("takes f16 that is not there"));
  EXPECT_THAT(faults(changed("x + x", "subgroupShuffleXor(x, 1u)")), Contains("takes subgroups that are not there"));
  EXPECT_THAT(faults(changed("array<Pair, TILE>", "array<Pair, ROWS>")),
              Contains("what its workgroup memory takes is not understood"));
}

TEST(KernelText, ShowsBindingsThatAreNotThoseSaid) {
  PipelineText text = text_of(kBody);
  text.storage = {Access::read};
  EXPECT_THAT(faults_of(text, default_adapter()), Contains("binding 0 is read_write"));
  text.storage = {Access::read_write, Access::read};
  EXPECT_THAT(faults_of(text, default_adapter()), Contains("binding 1 is of uniform"));
  text.storage.resize(9);
  EXPECT_THAT(faults_of(text, default_adapter()), Contains("9 storage buffers: want at most 8"));
}

class RecordingHostRules : public testing::Test {
 protected:
  RecordingHostRules() {
    Kernel kernel{.name = "test", .body = "@compute @workgroup_size(1) fn main() {}"};
    kernel.bindings = {{.name = "memory", .slot = {SlotKind::memory}, .access = Access::read_write},
                       {.name = "w", .slot = {SlotKind::weight}}};
    pipeline_ = host_.pipeline(pipeline_text(kernel));
  }
  BindingId bind(const BoundRange& first, const BoundRange& second) {
    const BoundRange storage[] = {first, second};
    return host_.bind(pipeline_, storage, {uniforms_, 0, 16}, {uniforms_, 256, 16});
  }
  void submit(uint32_t uniform_offset, uint32_t x) {
    CommandStream commands;
    commands.dispatch(pipeline_, bind({a_, 0, 1024}, {b_, 0, 1024}), uniform_offset, x, 1);
    host_.submit(commands, {});
  }

  RecordingHost host_{default_adapter(), std::make_shared<Record>()};
  BufferId a_ = host_.buffer(1024, BufferUse::storage), b_ = host_.buffer(1024, BufferUse::storage);
  BufferId uniforms_ = host_.buffer(512, BufferUse::uniform);
  PipelineId pipeline_ = 0;
};

TEST_F(RecordingHostRules, TakeWhatIsRight) {
  bind({a_, 0, 512}, {b_, 256, 768});
  submit(256, 65535);
}

TEST_F(RecordingHostRules, ShowBindingsThatOverlapOrReadWhatIsWritten) {
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter all(&failures);
    bind({a_, 0, 512}, {a_, 256, 512});
    bind({a_, 0, 256}, {a_, 256, 256});
  }
  ASSERT_EQ(failures.size(), 3);
  EXPECT_THAT(failures.GetTestPartResult(0).message(), testing::HasSubstr("bindings 0 and 1 overlap"));
  EXPECT_THAT(failures.GetTestPartResult(2).message(), testing::HasSubstr("bindings 0 and 1 read and write"));
}

TEST_F(RecordingHostRules, ShowRangesThatDoNotFit) {
  EXPECT_NONFATAL_FAILURE(bind({a_, 0, 2048}, {b_, 0, 64}), "binding 0");
  EXPECT_NONFATAL_FAILURE(bind({a_, 0, 64}, {b_, 128, 64}), "binding 1");
  EXPECT_NONFATAL_FAILURE(bind({uniforms_, 0, 64}, {b_, 0, 64}), "binding 0");
  EXPECT_NONFATAL_FAILURE(host_.upload(a_, 1020, std::vector<std::byte>(8)), "upload");
  EXPECT_NONFATAL_FAILURE(host_.drop_buffer(99), "buffer 99");
}

TEST_F(RecordingHostRules, ShowGridsAndOffsetsThatNoAdapterTakes) {
  EXPECT_NONFATAL_FAILURE(submit(0, 65536), "65536");
  EXPECT_NONFATAL_FAILURE(submit(0, 0), "dispatch.x");
  EXPECT_NONFATAL_FAILURE(submit(128, 1), "uniform_alignment");
}

TEST_F(RecordingHostRules, ShowCopiesWithinABuffer) {
  CommandStream commands;
  commands.copy({a_, 0, 64}, a_, 512);
  EXPECT_NONFATAL_FAILURE(host_.submit(commands, {}), "a buffer cannot be copied within itself");
}

}  // namespace
}  // namespace sluice::webgpu

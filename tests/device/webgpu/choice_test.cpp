// The program on the tests' driver: what --device auto makes of a processor that plays a GPU, and what is printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "app/open/self_check.h"
#include "checkpoint/checkpoint.h"
#include "library.h"
#include "model/model.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class WebGpuProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (webgpu_test_device() == nullptr) GTEST_SKIP() << "webgpu: no library or no GPU here: tools/fetch_webgpu.sh";
    library_ = webgpu_test_library();
  }
  std::string library_;
};

// A model that is large enough to be worth a GPU: bytes behind a GGUF file's tensors are nobody's.
TEST_F(WebGpuProgram, AutoNeverTakesAProcessorThatPlaysAGpu) {
  if (webgpu_test_device()->info().description.find("llvmpipe") == std::string::npos)
    GTEST_SKIP() << "webgpu: a GPU of another kind is here";
  const TemporaryFolder folder;
  const std::string model = folder.path("large.gguf");
  std::filesystem::copy_file("assets/demo-gemma4-q8_0.gguf", model);
  std::filesystem::resize_file(model, uint64_t{1} << 30);  // a hole
  const ProgramResult result =
      run_sluice({"run", model, "Hi", "--max-tokens", "2", "--device", "auto", "--webgpu-library", library_});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, StartsWith("device  cpu: "));
  EXPECT_THAT(result.err, HasSubstr(" (webgpu: llvmpipe"));
  EXPECT_THAT(result.err, HasSubstr(" is played by the processor)\n"));
}

// Of the demo's formats; the parity suite has the others.
TEST_F(WebGpuProgram, TheSelfCheckHoldsTheDeviceToTheReference) {
  Result<Checkpoint> checkpoint = open_checkpoint("assets/demo-gemma4-q8_0.gguf");
  ASSERT_TRUE(checkpoint) << checkpoint.error().text;
  const Result<Model> model = resolve(std::make_shared<const Checkpoint>(*std::move(checkpoint)));
  ASSERT_TRUE(model) << model.error().text;
  const Status right = check_products(*model, *webgpu_test_device(), Arithmetic::fast);
  EXPECT_TRUE(right) << right.error().text;
}

TEST_F(WebGpuProgram, DevicesDescribeTheAdapter) {
  const ProgramResult result = run_sluice({"devices", "--webgpu-library", library_});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("\nwebgpu      "));
  EXPECT_THAT(result.out, HasSubstr(", Vulkan\n            "));
  EXPECT_THAT(result.out, HasSubstr("f16, "));
  EXPECT_THAT(result.out, HasSubstr("\n            driver "));
}

// Whether the driver does anything with the name is its own affair.
TEST_F(WebGpuProgram, TheDriverIsToldANameWhereOneIsWanted) {
  setenv("SLUICE_VULKAN_APPLICATION", "an example", 1);
  const ProgramResult devices = run_sluice({"devices", "--webgpu-library", library_});
  const ProgramResult answer = run_sluice({"run", "assets/demo-gemma4-q8_0.gguf", "Hi", "--max-tokens", "2", "--device",
                                           "webgpu", "--webgpu-library", library_});
  unsetenv("SLUICE_VULKAN_APPLICATION");
  EXPECT_EQ(devices.err, "");
  EXPECT_THAT(devices.out, HasSubstr(", by the name of an example\n"));
  EXPECT_EQ(answer.status, 0) << answer.err;
}

// The loader and Dawn say five lines of their own.
TEST_F(WebGpuProgram, WithoutADriverOneSentenceStandsAlone) {
  const char* const before = getenv("VK_ICD_FILENAMES");
  const std::string kept = before == nullptr ? "" : before;
  setenv("VK_ICD_FILENAMES", "/none.json", 1);
  const ProgramResult result =
      run_sluice({"run", "tests/data/gemma4_dense", "Hi", "--device", "webgpu", "--webgpu-library", library_});
  const ProgramResult verbose = run_sluice({"devices", "--verbose", "--webgpu-library", library_});
  setenv("SLUICE_VULKAN_APPLICATION", "an example", 1);
  const ProgramResult named = run_sluice({"run", "demo", "Hi", "--device", "webgpu", "--webgpu-library", library_});
  unsetenv("SLUICE_VULKAN_APPLICATION");
  if (kept.empty())
    unsetenv("VK_ICD_FILENAMES");
  else
    setenv("VK_ICD_FILENAMES", kept.c_str(), 1);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "sluice: webgpu: found no GPU that Vulkan drives (No supported adapters): want a Vulkan 1.1 driver\n");
  EXPECT_THAT(verbose.err, HasSubstr("/none.json"));
  EXPECT_EQ(
      named.err,
      "sluice: webgpu: found no GPU that Vulkan drives (it gives no instance: status -9): want a Vulkan 1.1 driver\n");
}

}  // namespace
}  // namespace sluice

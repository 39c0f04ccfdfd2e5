// The device that --device auto chooses, by a table of candidates. The test needs no GPU.
#include "app/open/device_choice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "app/open/gpu.h"
#include "app/open/held_errors.h"
#include "app/open/open.h"
#include "app/open/self_check.h"
#include "base/files/file.h"
#include "base/text.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

constexpr uint64_t kLarge = uint64_t{4} << 30;
const std::string kData = SLUICE_TEST_DATA;

struct Gpu {
  std::string absent{};
  bool expected = false;
  std::optional<Error> closed{}, unfit{}, wrong{};
  bool is_gpu = true, is_software = false;
};

// A candidate of these facts, which writes down what was asked.
GpuCandidate candidate(const std::string& name, const Gpu& gpu, std::string& asked) {
  const auto status = [&asked, name](const char* step, const std::optional<Error>& failure) {
    asked += name + " " + step + "\n";
    return failure ? Status(*failure) : Status();
  };
  return {.name = name,
          .absent = gpu.absent,
          .expected = gpu.expected,
          .open = [=]() -> Result<GpuCandidate::Opened> {
            TRY_STATUS(status("open", gpu.closed));
            return GpuCandidate::Opened{"Example 9, Vulkan", gpu.is_gpu, gpu.is_software};
          },
          .fits = [=] { return status("fits", gpu.unfit); },
          .proven = [=] { return status("proven", gpu.wrong); }};
}

struct Case {
  Gpu gpu;
  uint64_t bytes = kLarge;
  DeviceChoice choice;
  std::string asked;
};

TEST(DeviceChoice, TakesAGpuThatIsRealFitsAndIsProvenAndElseSaysWhyNot) {
  const Error closed = error(ErrorKind::unsupported, "webgpu: found no GPU that Vulkan drives (none): want a driver");
  const Error unfit = error(ErrorKind::out_of_memory, "webgpu: Example 9 has room for 1 GB, the model takes 4 GB");
  const Error wrong = error(ErrorKind::unsupported, "webgpu: Example 9 multiplies q4_k wrongly");
  const std::string all = "webgpu open\nwebgpu fits\nwebgpu proven\n";
  const Case cases[] = {
      {{}, kLarge, {"webgpu"}, all},
      {{}, kLeastGpuModel, {"webgpu"}, all},
      {{}, 9'600'000, {"cpu", "webgpu: a model of 9.6 MB is done sooner by the processor", true}, ""},
      {{.absent = "this machine shows no GPU", .expected = true},
       kLarge,
       {"cpu", "webgpu: this machine shows no GPU", true},
       ""},
      {{.absent = "there is no Vulkan driver"}, kLarge, {"cpu", "webgpu: there is no Vulkan driver"}, ""},
      {{.closed = closed}, kLarge, {"cpu", closed.text}, "webgpu open\n"},
      {{.is_gpu = false, .is_software = true},
       kLarge,
       {"cpu", "webgpu: Example 9, Vulkan is played by the processor"},
       "webgpu open\n"},
      {{.is_gpu = false},
       kLarge,
       {"cpu", "webgpu: Example 9, Vulkan does not say what kind of GPU it is"},
       "webgpu open\n"},
      {{.unfit = unfit}, kLarge, {"cpu", unfit.text}, "webgpu open\nwebgpu fits\n"},
      {{.wrong = wrong}, kLarge, {"cpu", wrong.text}, all},
  };
  for (const Case& one : cases) {
    std::string asked;
    const GpuCandidate gpu = candidate("webgpu", one.gpu, asked);
    const DeviceChoice choice = choose_device({&gpu, 1}, one.bytes);
    EXPECT_EQ(choice.name, one.choice.name) << one.choice.why;
    EXPECT_EQ(choice.why, one.choice.why);
    EXPECT_EQ(choice.plain, one.choice.plain) << one.choice.why;
    EXPECT_EQ(asked, one.asked) << one.choice.why;
  }
}

TEST(DeviceChoice, TakesTheFirstOfSeveralGpusThatWillDo) {
  std::string asked;
  const Error unfit = error(ErrorKind::out_of_memory, "one: too small");
  const GpuCandidate gpus[] = {candidate("one", {.unfit = unfit}, asked), candidate("two", {}, asked),
                               candidate("three", {}, asked)};
  EXPECT_EQ(choose_device(gpus, kLarge).name, "two");
  EXPECT_EQ(asked, "one open\none fits\ntwo open\ntwo fits\ntwo proven\n");
  const GpuCandidate none[] = {candidate("one", {.unfit = unfit}, asked),
                               candidate("two", {.absent = "not there", .expected = true}, asked)};
  const DeviceChoice choice = choose_device(none, kLarge);
  EXPECT_EQ(choice.name, "cpu");
  EXPECT_EQ(choice.why, "one: too small; two: not there");
  EXPECT_FALSE(choice.plain);
}

TEST(GpuSigns, AreSeenWithoutOpeningAnything) {
  const TemporaryFolder folder;
  const GpuSigns::Node card{folder.path("dev"), "renderD"};
  const auto touch = [](const std::string& path) { std::ofstream(path) << "{}"; };
  ASSERT_TRUE(make_folders(folder.path("dev")));
  ASSERT_TRUE(make_folders(folder.path("icd.d")));
  GpuSigns signs{.nodes = {card}, .driver_folders = {folder.path("none"), folder.path("icd.d")}};
  EXPECT_EQ(gpu_absence(signs).why, "this machine shows no GPU");
  EXPECT_TRUE(gpu_absence(signs).expected);
  touch(folder.path("dev/card0"));
  EXPECT_TRUE(gpu_absence(signs).expected);
  touch(folder.path("dev/renderD128"));
  EXPECT_EQ(gpu_absence(signs).why, "there is no Vulkan driver");
  EXPECT_FALSE(gpu_absence(signs).expected);
  touch(folder.path("icd.d/readme.txt"));
  EXPECT_EQ(gpu_absence(signs).why, "there is no Vulkan driver");
  touch(folder.path("icd.d/example.json"));
  EXPECT_EQ(gpu_absence(signs).why, "");
  signs = {.nodes = {card}, .driver_folders = {}, .drivers_named = true};
  EXPECT_EQ(gpu_absence(signs).why, "");
}

TEST(HeldErrors, KeepWhatOthersPrintAndGiveStandardErrorBack) {
  testing::internal::CaptureStderr();
  std::string kept;
  {
    HeldErrors held;
    static_cast<void>(!::write(STDERR_FILENO, "noise\n", 6));
    kept = held.release();
    static_cast<void>(!::write(STDERR_FILENO, "ours\n", 5));
  }
  EXPECT_EQ(kept, "noise\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ours\n");
}

// Multiplies as the reference device does, with one bit of each row's first byte turned over.
class WrongDevice final : public Device {
 public:
  DeviceInfo info() const override { return {.name = "wrong", .description = "Example 9"}; }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override { return right_->plan(request); }
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    turned_ = std::make_unique<Turned>(weights);
    return right_->place(std::move(plan), *turned_, budget);
  }

 private:
  class Turned final : public WeightSource {
   public:
    explicit Turned(const WeightSource& weights) : weights_(weights) {}
    Result<TensorSource> find(const std::string& name) const override {
      TRY(TensorSource source, weights_.find(name));
      const uint64_t bytes = source.row_stride * source.shape.rows;
      const auto own = std::make_shared<std::vector<std::byte>>(bytes);
      std::memcpy(own->data(), source.bytes, bytes);
      for (uint64_t row = 0; row < source.shape.rows; ++row) (*own)[row * source.row_stride + 1] ^= std::byte{0x40};
      source.bytes = own->data();
      source.owner = own;
      return source;
    }

   private:
    const WeightSource& weights_;
  };

  std::unique_ptr<Device> right_ = make_reference_device();
  std::unique_ptr<WeightSource> turned_;
};

TEST(SelfCheck, HoldsADeviceToTheReferenceOnTheModelsOwnWeights) {
  ThreadPool pool(1);
  const std::unique_ptr<Device> cpu = make_cpu_device({.pool = &pool});
  for (const char* name : {"gemma4_moe", "qwen3_5_moe", "deepseek_v3"}) {
    const Result<Model> model = open_model(kData + "/" + name);
    ASSERT_TRUE(model) << model.error().text;
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::fast}) {
      const Status right = check_products(*model, *cpu, arithmetic);
      EXPECT_TRUE(right) << right.error().text;
      WrongDevice wrong;
      const Status caught = check_products(*model, wrong, arithmetic);
      ASSERT_FALSE(caught) << name;
      EXPECT_TRUE(starts_with(caught.error().text, "wrong: Example 9 multiplies bf16 wrongly ("))
          << caught.error().text;
    }
  }
}

// Blocks of 8 bits.
TEST(SelfCheck, TakesTheFormatsOfTheDemo) {
  ThreadPool pool(1);
  const std::unique_ptr<Device> cpu = make_cpu_device({.pool = &pool});
  const Result<std::string> path = model_path(kDemoName);
  ASSERT_TRUE(path);
  const Result<Model> model = open_model(*path);
  ASSERT_TRUE(model);
  EXPECT_TRUE(check_products(*model, *cpu, Arithmetic::fast));
  WrongDevice wrong;
  EXPECT_FALSE(check_products(*model, wrong, Arithmetic::fast));
}

// As the adapters of both drivers describe themselves.
TEST(Gpu, AdviceIsForNvidiasOwnDriverUntilItIsTaken) {
  unsetenv("SLUICE_VULKAN_APPLICATION");
  EXPECT_NE(driver_advice("NVIDIA: 580.159.04 580.159.4.0"), "");
  EXPECT_EQ(driver_advice("NVK: Mesa 25.0.7"), "");
  EXPECT_EQ(driver_advice(""), "");
  setenv("SLUICE_VULKAN_APPLICATION", "ggml-vulkan", 1);
  EXPECT_EQ(driver_advice("NVIDIA: 580.159.04 580.159.4.0, by the name of ggml-vulkan"), "");
  unsetenv("SLUICE_VULKAN_APPLICATION");
}

}  // namespace
}  // namespace sluice

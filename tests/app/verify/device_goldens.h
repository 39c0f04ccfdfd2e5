// The text goldens of the models in tests/data on a device, as `sluice verify` holds them: all cases in both
// arithmetics, and of each family the smallest case that has intermediate values, where time is short ("..._short").
//
//   INSTANTIATE_TEST_SUITE_P(Cuda, DeviceGoldens, testing::ValuesIn(golden_params({cuda_words})), golden_name);
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct GoldenDevice {
  std::function<std::vector<std::string>()> words{};  // of the command line, that choose the device
  std::function<std::string()> absent{};  // why it is not on this machine, and "" where it is; null: it always is
};

struct GoldenParam {
  GoldenDevice device{};
  std::string name{};                  // of the test
  std::vector<std::string> folders{};  // of tests/data: the model's, then those that its other files are taken from
  std::vector<std::string> chosen{};   // options of verify
  int64_t results = 0;                 // held, each a case in an arithmetic
};

std::vector<GoldenParam> golden_params(const GoldenDevice& device);
std::string golden_name(const testing::TestParamInfo<GoldenParam>& info);

class DeviceGoldens : public testing::TestWithParam<GoldenParam> {};

}  // namespace sluice

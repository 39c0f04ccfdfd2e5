// The parity suite: every op's and block's cases, played on a device and on the f64 reference with the same inputs.
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, Parity, testing::ValuesIn(parity_params({{"cpu_avx2", make_cpu}})), parity_name);
//
// For each subject (an op, or "blocks"), in both arithmetics and both token classes:
//   - results are within the op's tolerance, from outputs, activations and pages full of NaN;
//   - rows computed alone equal rows computed in a batch, bit for bit;
//   - a traced plan shows every op's result, also inside blocks;
//   - the first op with a result that is not finite is found;
//   - state that is copied, or read and written, to other pages gives the same bits.
// A case passes unseen only when the device's DeviceInfo::missing names an op of it, or where SLUICE_PARITY_EVERY=N
// asks for each Nth case of a subject and its last.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/cases.h"

namespace sluice {

struct ParityDevice {
  std::string name;  // letters, digits and _
  std::function<std::unique_ptr<Device>()> make;
};

struct ParityParam {
  ParityDevice device;
  std::string subject;
};

// Each device with each subject.
std::vector<ParityParam> parity_params(const std::vector<ParityDevice>& devices);
std::string parity_name(const testing::TestParamInfo<ParityParam>& info);

struct ParityCase {
  OpCase op;
  std::string key;  // the subject and the case's number there
};

class Parity : public testing::TestWithParam<ParityParam> {
 protected:
  void SetUp() override;
  std::unique_ptr<Device> device_;
  std::vector<ParityCase> cases_;  // of the subject, with no op that the device lacks
};

}  // namespace sluice

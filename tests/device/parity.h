// The parity suite plays every op's and block's cases on a device and on the f64 reference, with the same inputs.
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, Parity, ValuesIn(parity_params({{"cpu_avx2", make_cpu, how}})), parity_name);
//
// For each subject (an op, or "blocks"), in both arithmetics and both token classes:
//   - results are within the op's tolerance; outputs, activations and pages are full of NaN before;
//   - rows computed alone equal rows computed in a batch, bit for bit;
//   - a traced plan shows every op's result, also inside blocks;
//   - the first op with a result that is not finite is found;
//   - state that is copied, or read and written, to other pages gives the same bits.
// A case is skipped only if DeviceInfo::missing names one of its ops, or by SLUICE_PARITY_EVERY=N (each Nth case runs).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/cases.h"

namespace sluice {

// What products round in a device's fast arithmetic; the bars that it is held to follow from that.
struct FastProducts {
  // Activations that meet weights of f32, f16 and bf16. Format::f32: they are not rounded, the products are those of
  // exact arithmetic, and its bar holds. Format::bf16: Tolerance::fast. Format::f16: likewise, except that weights of
  // f32 meet activations of f32.
  Format activations = Format::f32;
  // Columns that share a scale where activations are rounded to 8 bits: Tolerance::fast_8bit. 0: they never are.
  uint32_t block = 0;
};

struct ParityDevice {
  std::string name;                               // letters, digits and _
  std::function<std::unique_ptr<Device>()> make;  // null where this machine lacks it
  FastProducts fast;
  // Asked when the device has been opened, where the device decides; null: `fast`.
  FastProducts (*fast_of_opened)() = nullptr;
  FastProducts fast_products() const { return fast_of_opened != nullptr ? fast_of_opened() : fast; }
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

// Activations in 8 bits are the nearest ones: of roundings that lean to a side, as down or to zero, each is small
// enough for the bars above. Of devices with FastProducts::block.
class EightBitActivations : public testing::TestWithParam<ParityDevice> {};
std::string device_name(const testing::TestParamInfo<ParityDevice>& info);

}  // namespace sluice

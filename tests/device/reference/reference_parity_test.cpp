#include "device/reference/reference.h"
#include "tests/device/parity.h"

namespace sluice {
namespace {

// Its fast arithmetic differs by the format of the cache only.
constexpr FastProducts kFast{.activations = Format::f32, .block = 0};

INSTANTIATE_TEST_SUITE_P(Reference, Parity,
                         testing::ValuesIn(parity_params({{"reference", make_reference_device, kFast}})), parity_name);

}  // namespace
}  // namespace sluice

#include "device/reference/reference.h"
#include "parity.h"

namespace sluice {
namespace {

INSTANTIATE_TEST_SUITE_P(Reference, Parity, testing::ValuesIn(parity_params({{"reference", make_reference_device}})),
                         parity_name);

}  // namespace
}  // namespace sluice

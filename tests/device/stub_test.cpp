// A device that is written after docs/adding.md (stub/stub.h) joins the suite by what that page says, and is refused
// where it lacks an op.
#include "stub/stub.h"

#include <algorithm>

#include "device/reference/reference.h"
#include "parity.h"
#include "parity_player.h"

namespace sluice {
namespace {

constexpr FastProducts kFast{.activations = Format::f32, .block = 0};

INSTANTIATE_TEST_SUITE_P(Stub, Parity, testing::ValuesIn(parity_params({{"stub", make_stub_device, kFast}})),
                         parity_name);

std::string refusal(const OpCase& one, ExpertSlots slots = {}) {
  std::vector<uint32_t> pages(one.program.groups.size());
  const auto plan = make_stub_device()->plan({.program = &one.program,
                                              .maxima = {.pages_per_sequence = pages},
                                              .pages = pages,
                                              .weights = placed_shapes(one),
                                              .expert_slots = slots});
  return plan ? "" : plan.error().text;
}

TEST(StubDevice, IsRefusedForAProgramWithAnOpThatItLacks) {
  EXPECT_EQ(refusal(cases_of("rope")[0]), "program: found rope: want an op that the stub device has");
  EXPECT_EQ(refusal(cases_of("attention")[0]), "program: found append: want an op that the stub device has");
  EXPECT_EQ(refusal(cases_of("linear")[0]), "");
  EXPECT_EQ(
      refusal(cases_of("linear").back()),
      "adapters: found one that changes linear: want one of other weights for the stub device, or the cpu device");
  EXPECT_EQ(refusal(cases_of("linear")[0], {.count = 2, .bytes = kSlotAlignment}),
            "experts: found 2 slots to hold them: want all in memory on the stub device");
}

TEST(StubDevice, LacksWhatStandsInItsTable) {
  const std::vector<std::string> missing = make_stub_device()->info().missing;
  for (const std::string_view subject : case_subjects()) {
    if (subject == "blocks") continue;
    const bool lacks = std::ranges::find(missing, subject) != missing.end();
    const std::vector<OpCase> cases = cases_of(subject);
    EXPECT_EQ(std::ranges::all_of(cases, [](const OpCase& one) { return !refusal(one).empty(); }), lacks) << subject;
  }
}

// It says nothing of its speed, and computes when it is asked whether it is done.
TEST(StubDevice, HasNoOptionalFace) {
  const std::unique_ptr<Device> device = make_stub_device();
  EXPECT_EQ(device->measured(), nullptr);
  EXPECT_EQ(make_reference_device()->measured(), nullptr);
}

}  // namespace
}  // namespace sluice

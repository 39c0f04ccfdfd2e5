#include "base/budget.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

Reservation reserve(Budget& budget, Purpose purpose, uint64_t bytes) {
  auto reservation = budget.reserve(Domain::host, purpose, bytes);
  EXPECT_TRUE(reservation.ok());
  return *std::move(reservation);
}

TEST(Budget, GivesBackWhatAReservationHeld) {
  Budget budget;
  {
    const Reservation weights = reserve(budget, Purpose::weights, 100);
    const Reservation state = reserve(budget, Purpose::state, 20);
    EXPECT_EQ(budget.used(Domain::host), 120u);
  }
  EXPECT_EQ(budget.used(Domain::host), 0u);
}

TEST(Budget, RefusesWhatDoesNotFitAndSaysWhoHoldsWhat) {
  Budget budget;
  budget.set_limit(Domain::host, 8000);
  const Reservation weights = reserve(budget, Purpose::weights, 5000);
  const Reservation state = reserve(budget, Purpose::state, 1500);
  const auto refused = budget.reserve(Domain::host, Purpose::packed_weights, 1600);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::out_of_memory);
  EXPECT_EQ(refused.error().text,
            "host memory: 1.5 kB left of 8.0 kB (weights 5.0 kB, state 1.5 kB): want 1.6 kB for packed weights");
  EXPECT_TRUE(budget.reserve(Domain::host, Purpose::packed_weights, 1500).ok());
  EXPECT_TRUE(budget.reserve(Domain::device(), Purpose::weights, 9000).ok());  // another domain, no limit
}

TEST(Budget, ALimitOfNothingRefusesEverything) {
  Budget budget;
  budget.set_limit(Domain::device(), 0);
  EXPECT_TRUE(budget.reserve(Domain::device(), Purpose::state, 0).ok());
  const auto refused = budget.reserve(Domain::device(), Purpose::state, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "device memory: 0 bytes left of 0 bytes (nothing held): want 1 bytes for state");
}

TEST(Budget, MappedWeightsCountOnlyWhereThatIsAskedFor) {
  Budget budget;
  budget.set_limit(Domain::host, 1000);
  const Reservation mapped = reserve(budget, Purpose::mapped_weights, 5000);
  EXPECT_EQ(budget.used(Domain::host), 0u);
  EXPECT_EQ(budget.table(), "host mapped weights: 5.0 kB, at most 5.0 kB\n");
  EXPECT_TRUE(budget.reserve(Domain::host, Purpose::state, 1000).ok());
  budget.set_limit(Domain::host, 6000);
  budget.count_mapped(Domain::host, true);
  EXPECT_EQ(budget.used(Domain::host), 5000u);
  EXPECT_EQ(budget.left(Domain::host), 1000u);
  EXPECT_FALSE(budget.reserve(Domain::host, Purpose::mapped_weights, 1001).ok());
}

TEST(Budget, TheReserveIsMeasuredAndNeverRefused) {
  Budget budget;
  budget.set_limit(Domain::host, 1000);
  budget.set_reserve(Domain::host, 1500);
  EXPECT_EQ(budget.reserve(Domain::host, Purpose::state, 1).error().text,
            "host memory: 0 bytes left of 1.0 kB (reserve 1.5 kB): want 1 bytes for state");
  budget.set_reserve(Domain::host, 200);
  EXPECT_EQ(budget.left(Domain::host), 800u);
  EXPECT_EQ(budget.table(), "host reserve: 200 bytes, at most 1.5 kB\n");
}

TEST(Budget, SaysOfSeveralThingsWhatEachWouldTake) {
  Budget budget;
  budget.set_limit(Domain::host, 8000);
  const Reservation weights = reserve(budget, Purpose::weights, 5000);
  const std::vector<MemoryLine> wanted = {{Domain::host, Purpose::state, 2000},
                                          {Domain::host, Purpose::packed_weights, 0},
                                          {Domain::device(), Purpose::state, 1 << 30},
                                          {Domain::host, Purpose::mapped_weights, 9000},
                                          {Domain::host, Purpose::activations, 1000}};
  EXPECT_TRUE(budget.has_room(wanted).ok());
  budget.set_limit(Domain::host, 7999);
  EXPECT_EQ(budget.has_room(wanted).error().text,
            "host memory: 3.0 kB left of 8.0 kB (weights 5.0 kB): want 3.0 kB, of it 2.0 kB for state, 1.0 kB for "
            "activations");
  EXPECT_EQ(budget.used(Domain::host), 5000u);
}

TEST(Budget, ALimitBelowWhatIsHeldStopsFurtherReservations) {
  Budget budget;
  const Reservation weights = reserve(budget, Purpose::weights, 100);
  budget.set_limit(Domain::host, 50);
  EXPECT_FALSE(budget.reserve(Domain::host, Purpose::weights, 1).ok());
}

TEST(Budget, SumsCannotWrapAround) {
  Budget budget;
  const Reservation weights = reserve(budget, Purpose::weights, UINT64_MAX - 5);
  EXPECT_FALSE(budget.reserve(Domain::host, Purpose::state, 6).ok());
  EXPECT_TRUE(budget.reserve(Domain::host, Purpose::state, 5).ok());
}

TEST(Budget, ResizesInPlace) {
  Budget budget;
  budget.set_limit(Domain::host, 100);
  Reservation staging = reserve(budget, Purpose::staging, 40);
  EXPECT_TRUE(staging.resize(100).ok());
  EXPECT_FALSE(staging.resize(101).ok());
  EXPECT_EQ(staging.bytes(), 100u);
  EXPECT_TRUE(staging.resize(10).ok());
  EXPECT_EQ(budget.used(Domain::host), 10u);
}

TEST(Budget, AReservationMovesAndOutlivesItsBudget) {
  Reservation held;
  EXPECT_EQ(held.bytes(), 0u);
  {
    Budget budget;
    Reservation first = reserve(budget, Purpose::weights, 10);
    Reservation second = reserve(budget, Purpose::weights, 20);
    held = std::move(first);
    held = std::move(second);  // gives the first one back
    EXPECT_EQ(budget.used(Domain::host), 20u);
    const Reservation third(std::move(held));
    EXPECT_EQ(budget.used(Domain::host), 20u);
    held = reserve(budget, Purpose::state, 5);
  }
  EXPECT_EQ(held.bytes(), 5u);
  held.release();
  EXPECT_EQ(held.bytes(), 0u);
}

TEST(Budget, TheTableHoldsPresentAndPeak) {
  Budget budget;
  const Reservation weights = reserve(budget, Purpose::weights, 2000);
  reserve(budget, Purpose::activations, 500).release();
  EXPECT_EQ(budget.table(), "host weights: 2.0 kB, at most 2.0 kB\nhost activations: 0 bytes, at most 500 bytes\n");
  ASSERT_EQ(budget.lines().size(), 2u);
  EXPECT_EQ(budget.lines()[1].bytes, 0u);
  EXPECT_EQ(budget.lines()[1].peak, 500u);
}

TEST(Budget, CountsFromSeveralThreads) {
  Budget budget;
  budget.set_limit(Domain::host, 2);
  const auto work = [&] {
    for (int i = 0; i < 1000; ++i) {
      auto reservation = budget.reserve(Domain::host, Purpose::staging, 1);
      ASSERT_TRUE(reservation.ok());
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(budget.used(Domain::host), 0u);
}

TEST(Budget, EachDeviceHasALimitOfItsOwn) {
  Budget budget;
  budget.set_limit(Domain::device(0), 1000);
  budget.set_limit(Domain::device(1), 2000);
  const auto first = budget.reserve(Domain::device(0), Purpose::weights, 900);
  const auto second = budget.reserve(Domain::device(1), Purpose::weights, 1500);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(budget.left(Domain::device(0)), 100u);
  EXPECT_EQ(budget.left(Domain::device(1)), 500u);
  EXPECT_EQ(budget.left(Domain::device(2)), UINT64_MAX) << "of which nothing was said";
  EXPECT_EQ(budget.reserve(Domain::device(0), Purpose::state, 500).error().text,
            "device memory: 100 bytes left of 1.0 kB (weights 900 bytes): want 500 bytes for state");
  EXPECT_EQ(budget.reserve(Domain::device(1), Purpose::state, 501).error().text,
            "device 1 memory: 500 bytes left of 2.0 kB (weights 1.5 kB): want 501 bytes for state");
  EXPECT_FALSE(budget.has_room({{Domain::device(0), Purpose::state, 50}, {Domain::device(1), Purpose::state, 501}}));
  EXPECT_TRUE(budget.has_room({{Domain::device(0), Purpose::state, 50}, {Domain::device(1), Purpose::state, 500}}));
  const std::vector<BudgetLine> lines = budget.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].domain, Domain::device(1));
  EXPECT_EQ(lines[1].bytes, 1500u);
}

TEST(Budget, NamesDomains) {
  EXPECT_EQ(domain_name(Domain()), "host");
  EXPECT_EQ(domain_name(Domain::wasm_heap), "wasm heap");
  EXPECT_EQ(domain_name(Domain::device()), "device") << "that of a machine with one";
  EXPECT_EQ(domain_name(Domain::device(3)), "device 3");
}

}  // namespace
}  // namespace sluice

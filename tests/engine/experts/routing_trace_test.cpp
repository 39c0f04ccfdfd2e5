#include "engine/experts/routing_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/text.h"
#include "engine/experts/drawn_routing.h"

namespace sluice {
namespace {

std::string scratch(const char* name) { return join_path(::testing::TempDir(), cat("sluice_routing_", name)); }

std::string refusal(const std::string& text) {
  const std::string path = scratch("bad");
  EXPECT_TRUE(write_file(path, text).ok());
  const Result<RoutingTrace> trace = read_routing(path);
  return trace ? "accepted" : trace.error().text.substr(path.size());
}

TEST(RoutingTrace, IsReadAsItWasWritten) {
  const RoutingTrace drawn = draw_routing({.layers = 3, .experts = 300, .used = 5, .tokens = 7, .seed = 1});
  const std::string path = scratch("whole");
  ASSERT_TRUE(write_routing(drawn, path).ok());
  const Result<RoutingTrace> read = read_routing(path);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->layers, 3u);
  EXPECT_EQ(read->experts, 300u);
  EXPECT_EQ(read->used, 5u);
  EXPECT_EQ(read->tokens(), 7u);
  EXPECT_EQ(read->chosen, drawn.chosen);
}

TEST(RoutingTrace, RefusesWhatIsNoTrace) {
  const std::string head = "sluice routing 1: 2 layers, 4 experts, 2 a token\n";
  EXPECT_EQ(refusal(head + "0 1\n2 3\n"), "accepted");
  const std::string want_head =
      ": line 1: found no \"sluice routing 1: 40 layers, 256 experts, 8 a token\": want a routing trace";
  EXPECT_EQ(refusal(""), want_head);
  EXPECT_EQ(refusal("sluice routing 1: 0 layers, 4 experts, 2 a token\n0 1\n"), want_head);
  EXPECT_EQ(refusal("sluice routing 1: 2 layers, 4 experts, 5 a token\n0 1\n"), want_head);
  EXPECT_EQ(refusal("sluice routing 1: 99999999999 layers, 4 experts, 2 a token\n"), want_head);
  EXPECT_EQ(refusal(head), ": found 0 lines of experts: want 2 for each token");
  EXPECT_EQ(refusal(head + "0 1\n2 3\n0 1\n"), ": found 3 lines of experts: want 2 for each token");
  EXPECT_EQ(refusal(head + "0 1\n2 4\n"), ": line 3: found 2 4: want 2 different numbers below 4");
  EXPECT_EQ(refusal(head + "0 1\n2 2\n"), ": line 3: found 2 2: want 2 different numbers below 4");
  EXPECT_EQ(refusal(head + "0 1\n2 -1\n"), ": line 3: found 2 -1: want 2 different numbers below 4");
  EXPECT_EQ(refusal(head + "0 1 2\n2 3\n"), ": line 2: found 0 1 2: want 2 different numbers below 4");
}

// How often the favourites of a layer are drawn, by rank.
std::vector<double> shares(const RoutingTrace& trace, uint32_t layer) {
  std::vector<double> counts(trace.experts);
  for (size_t token = 0; token < trace.tokens(); ++token)
    for (const uint32_t expert : trace.at(token, layer)) counts[expert] += 1.0 / static_cast<double>(trace.tokens());
  std::sort(counts.begin(), counts.end(), std::greater());
  return counts;
}

TEST(DrawnRouting, FollowsTheDistribution) {
  const RoutingTrace trace =
      draw_routing({.layers = 2, .experts = 50, .used = 1, .tokens = 40000, .exponent = 1, .seed = 5});
  double all = 0;
  for (int rank = 1; rank <= 50; ++rank) all += 1.0 / rank;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const std::vector<double> counted = shares(trace, layer);
    // Five standard deviations of a share of 40,000 draws are less than 0.0125.
    for (const int rank : {1, 2, 5, 10, 25})
      EXPECT_NEAR(counted[static_cast<size_t>(rank - 1)], 1 / (rank * all), 0.0125);
  }
}

TEST(DrawnRouting, ChoosesDifferentExpertsForAToken) {
  const RoutingTrace trace =
      draw_routing({.layers = 2, .experts = 6, .used = 5, .tokens = 50, .exponent = 1.2, .topics = 3, .seed = 6});
  for (size_t token = 0; token < trace.tokens(); ++token) {
    const auto chosen = trace.at(token, 1);
    EXPECT_EQ(std::set<uint32_t>(chosen.begin(), chosen.end()).size(), 5u);
  }
}

// The favourites of one stretch of text are not those of another one.
TEST(DrawnRouting, TopicsDrift) {
  const auto favourites_kept = [](uint32_t topics) {
    const RoutingTrace trace = draw_routing({.layers = 1,
                                             .experts = 64,
                                             .used = 4,
                                             .tokens = 4000,
                                             .exponent = 1.2,
                                             .topics = topics,
                                             .topic_tokens = 400,
                                             .seed = 7});
    std::vector<double> early(64), late(64);
    for (size_t token = 0; token < 4000; ++token)
      for (const uint32_t expert : trace.at(token, 0)) ++(token < 200 ? early : late)[expert];
    double both = 0, first = 0, second = 0;
    for (size_t i = 0; i < 64; ++i) {
      both += early[i] * late[i];
      first += early[i] * early[i];
      second += late[i] * late[i];
    }
    return both / std::sqrt(first * second);  // the cosine of the two counts
  };
  EXPECT_GT(favourites_kept(1), 0.98);
  EXPECT_LT(favourites_kept(8), 0.9);
}

}  // namespace
}  // namespace sluice

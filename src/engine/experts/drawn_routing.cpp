#include "engine/experts/drawn_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace sluice {
namespace {

constexpr double kOwnRanks = 0.5;  // of a layer's experts, which a topic ranks in its own way

// Numbers in [0, 1), one after another.
class Draws {
 public:
  explicit Draws(uint64_t seed) : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}
  double next() {
    if (at_ == words_.size()) {
      words_ = philox4x32({count_++, 0, 0, 0}, key_);
      at_ = 0;
    }
    return words_[at_++] * 0x1p-32;
  }
  size_t below(size_t count) { return static_cast<size_t>(next() * static_cast<double>(count)); }

 private:
  PhiloxKey key_;
  PhiloxCounter words_{};
  uint32_t count_ = 0;
  size_t at_ = words_.size();
};

void shuffle(std::vector<uint32_t>& items, Draws& draws) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[draws.below(i)]);
}

// A layer's experts by rank.
using Ranking = std::vector<uint32_t>;

Ranking partly_shuffled(Ranking ranking, Draws& draws) {
  std::vector<uint32_t> ranks, own;
  ranks.reserve(ranking.size());
  own.reserve(ranking.size());
  for (uint32_t rank = 0; rank < ranking.size(); ++rank) {
    if (draws.next() >= kOwnRanks) continue;
    ranks.push_back(rank);
    own.push_back(ranking[rank]);
  }
  shuffle(own, draws);
  for (size_t i = 0; i < ranks.size(); ++i) ranking[ranks[i]] = own[i];
  return ranking;
}

// Of each layer, for each topic.
std::vector<std::vector<Ranking>> rankings(const DrawnRouting& wanted, Draws& draws) {
  std::vector<std::vector<Ranking>> layers(wanted.layers);
  for (std::vector<Ranking>& topics : layers) {
    Ranking common(wanted.experts);
    std::iota(common.begin(), common.end(), 0);
    shuffle(common, draws);
    topics.reserve(wanted.topics);
    for (uint32_t topic = 0; topic < wanted.topics; ++topic) topics.push_back(partly_shuffled(common, draws));
  }
  return layers;
}

// How likely a rank is this one or one before.
std::vector<double> rank_sums(const DrawnRouting& wanted) {
  std::vector<double> sums(wanted.experts);
  for (uint32_t rank = 0; rank < wanted.experts; ++rank) sums[rank] = std::pow(rank + 1.0, -wanted.exponent);
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  const double all = sums.back();
  for (double& sum : sums) sum /= all;
  return sums;
}

// Appends a token's experts of a layer: one draw after another, those that came before left out.
void choose(const Ranking& ranking, const std::vector<double>& sums, uint32_t used, Draws& draws,
            std::vector<uint32_t>& chosen) {
  const size_t first = chosen.size();
  while (chosen.size() < first + used) {
    const auto rank = static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), draws.next()) - sums.begin());
    const uint32_t expert = ranking[std::min(rank, ranking.size() - 1)];
    if (std::find(chosen.begin() + static_cast<std::ptrdiff_t>(first), chosen.end(), expert) == chosen.end())
      chosen.push_back(expert);
  }
}

}  // namespace

RoutingTrace draw_routing(const DrawnRouting& wanted) {
  CHECK(wanted.used <= wanted.experts && wanted.topics > 0 && wanted.topic_tokens > 0);
  Draws draws(wanted.seed);
  const std::vector<std::vector<Ranking>> layers = rankings(wanted, draws);
  const std::vector<double> sums = rank_sums(wanted);
  RoutingTrace trace{.layers = wanted.layers, .experts = wanted.experts, .used = wanted.used};
  trace.chosen.reserve(size_t{wanted.tokens} * wanted.layers * wanted.used);
  size_t topic = 0;
  for (uint32_t token = 0; token < wanted.tokens; ++token) {
    if (draws.next() * wanted.topic_tokens < 1) topic = draws.below(wanted.topics);
    for (const std::vector<Ranking>& topics : layers) choose(topics[topic], sums, wanted.used, draws, trace.chosen);
  }
  return trace;
}

}  // namespace sluice

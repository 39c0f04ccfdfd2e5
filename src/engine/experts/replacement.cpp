#include "engine/experts/replacement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace sluice {
namespace {

size_t index_of(const ExpertCounts& counts, uint32_t layer, uint32_t expert) {
  return size_t{layer} * counts.experts + expert;
}

class LeastRecentlyUsed final : public Replacement {
 public:
  explicit LeastRecentlyUsed(const ExpertCounts& counts)
      : counts_(counts), last_use_(size_t{counts.layers} * counts.experts) {}
  void use(uint32_t layer, std::span<const uint32_t> experts) override {
    ++now_;
    for (const uint32_t expert : experts) last_use_[index_of(counts_, layer, expert)] = now_;
  }
  double worth(uint32_t layer, uint32_t expert) const override {
    return static_cast<double>(last_use_[index_of(counts_, layer, expert)]);
  }

 private:
  ExpertCounts counts_;
  std::vector<uint64_t> last_use_;
  uint64_t now_ = 0;
};

// Uses of each expert, counted several times: each count forgets at its own speed, a use so many turns ago as its
// half-life counting half. Instead of old uses shrinking, new ones count more and more.
template <size_t kCounts>
class FadingUses {
 public:
  using Numbers = std::array<double, kCounts>;  // one of each count

  FadingUses(const ExpertCounts& counts, const Numbers& half_lives)
      : counts_(counts), uses_(size_t{counts.layers} * counts.experts) {
    for (size_t i = 0; i < kCounts; ++i) growth_[i] = std::exp2(1 / (half_lives[i] * counts.layers));
    unit_.fill(1);
  }

  void add(uint32_t layer, std::span<const uint32_t> experts) {
    for (size_t i = 0; i < kCounts; ++i) {
      unit_[i] *= growth_[i];
      turns_[i] += unit_[i] / counts_.layers;
    }
    for (const uint32_t expert : experts) {
      Numbers& uses = uses_[index_of(counts_, layer, expert)];
      for (size_t i = 0; i < kCounts; ++i) uses[i] += unit_[i];
    }
    for (size_t i = 0; i < kCounts; ++i)
      if (unit_[i] > kLargestUnit) begin_anew(i);
  }

  // Of an expert, and turns that a layer has had; both in units, of which one is what a use counts now.
  const Numbers& uses(uint32_t layer, uint32_t expert) const { return uses_[index_of(counts_, layer, expert)]; }
  const Numbers& turns() const { return turns_; }
  const Numbers& unit() const { return unit_; }

 private:
  static constexpr double kLargestUnit = 0x1p500;

  void begin_anew(size_t count) {
    for (Numbers& uses : uses_) uses[count] /= unit_[count];
    turns_[count] /= unit_[count];
    unit_[count] = 1;
  }

  ExpertCounts counts_;
  std::vector<Numbers> uses_;  // by layer and expert
  Numbers growth_{}, turns_{}, unit_{};
};

class LeastFrequentlyUsed final : public Replacement {
 public:
  explicit LeastFrequentlyUsed(const ExpertCounts& counts) : uses_(counts, {kHalfLife}) {}
  void use(uint32_t layer, std::span<const uint32_t> experts) override { uses_.add(layer, experts); }
  double worth(uint32_t layer, uint32_t expert) const override { return uses_.uses(layer, expert)[0]; }

 private:
  static constexpr double kHalfLife = 64;  // turns
  FadingUses<1> uses_;
};

class FarthestNextUse final : public Replacement {
 public:
  explicit FarthestNextUse(const ExpertCounts& counts) : counts_(counts), uses_(counts, kHalfLives) {}

  void use(uint32_t layer, std::span<const uint32_t> experts) override {
    judge(layer, experts);
    uses_.add(layer, experts);
    layer_ = layer;
    for (size_t i = 0; i < kEstimates; ++i) {
      const double turns = uses_.turns()[i] + kPriorTurns * uses_.unit()[i];
      per_use_[i] = 1 / turns;
      unused_[i] = kPriorTurns * kPrior * uses_.unit()[i] / turns;
    }
  }

  // The turns of layers until then, negated.
  double worth(uint32_t layer, uint32_t expert) const override {
    const uint32_t until_turn = layer > layer_ ? layer - layer_ : layer + counts_.layers - layer_;
    double likely = 0;
    for (size_t i = 0; i < kEstimates; ++i) likely += weights_[i] * likelihood(i, layer, expert);
    return -(until_turn + counts_.layers * (1 / likely - 1));
  }

 private:
  static constexpr size_t kEstimates = 4;
  static constexpr std::array<double, kEstimates> kHalfLives = {8, 32, 128, 512};  // turns
  // What is known of an expert before its layer's first turn, and how many turns that knowledge is worth.
  static constexpr double kPrior = 1.0 / 16, kPriorTurns = 1;
  static constexpr double kTrust = 0.9;  // in what an estimate foretold one turn earlier

  // That its layer's next turn uses an expert, by one estimate.
  double likelihood(size_t estimate, uint32_t layer, uint32_t expert) const {
    return uses_.uses(layer, expert)[estimate] * per_use_[estimate] + unused_[estimate];
  }

  void judge(uint32_t layer, std::span<const uint32_t> experts) {
    for (size_t i = 0; i < kEstimates; ++i) {
      foretold_[i] *= kTrust;
      for (const uint32_t expert : experts) foretold_[i] += std::log(likelihood(i, layer, expert));
    }
    const double best = *std::max_element(foretold_.begin(), foretold_.end());
    double sum = 0;
    for (size_t i = 0; i < kEstimates; ++i) sum += weights_[i] = std::exp(foretold_[i] - best);
    for (double& weight : weights_) weight /= sum;
  }

  ExpertCounts counts_;
  FadingUses<kEstimates> uses_;
  std::array<double, kEstimates> per_use_{}, unused_{kPrior, kPrior, kPrior, kPrior};
  std::array<double, kEstimates> foretold_{}, weights_{};  // logarithms of how likely the uses were so far
  uint32_t layer_ = 0;
};

}  // namespace

const char* replacement_name(ReplacementKind kind) {
  static constexpr const char* kNames[] = {"lru", "lfu", "next_use"};
  return kNames[static_cast<size_t>(kind)];
}

std::unique_ptr<Replacement> make_replacement(ReplacementKind kind, const ExpertCounts& counts) {
  switch (kind) {
    case ReplacementKind::lru: return std::make_unique<LeastRecentlyUsed>(counts);
    case ReplacementKind::lfu: return std::make_unique<LeastFrequentlyUsed>(counts);
    case ReplacementKind::next_use: return std::make_unique<FarthestNextUse>(counts);
  }
  return nullptr;
}

}  // namespace sluice

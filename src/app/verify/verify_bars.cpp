#include "app/verify/verify_bars.h"

#include <algorithm>

#include "app/verify/peer_errors.h"

namespace sluice {
namespace {

// exact: everything is f32, so only the order of sums differs.
constexpr double kExactLogits = 1e-3;
constexpr double kExactFloat64Factor = 10;  // of the golden's own distance to float64: long cases are that sensitive
constexpr double kExactIntermediate = 1e-4;
constexpr double kExactLnPerplexity = 1e-3;
constexpr double kExactExpertsTie = 1e-5;
constexpr double kExactGreedyFactor = 2;  // both logits may be off by the bar

// fast, random models: every rounding is amplified layer by layer, so intermediates are held in the first layer only.
constexpr double kFastLayerBf16 = 2e-2;
constexpr double kFastLayerEightBit = 5e-2;

// fast, random models as a whole, weights of the golden. The golden's distance to float64 says how much a case
// amplifies roundings to 24 bits, made in every op; the coarsest that this arithmetic allows here are of bf16, to 9
// bits.
constexpr double kFastFloat64Factor = 0x1p-9 / 0x1p-24;

// fast, random models as a whole, 8-bit activations. These activations are so coarse that a token may get other
// experts, and then its logits mean nothing. So the bar is held to the median row. It is chosen to detect a missing
// part: each of n parts (attention or feed-forward, two a layer) has about 1/n of the square of the last hidden state's
// norm, so without one part logits are wrong by about 1/sqrt(n) of their norm, and by more if later parts follow. The
// goldens' random models have at most 8 layers. Measured: attention and experts of the small models were left out one
// at a time. The q8_0 files then exceed this bar except for the last parts of qwen3_5_moe (0.22 and 0.23); the bf16
// models exceed the bar above every time.
constexpr double kFastMedianRelative = 0.25;  // 1/sqrt(16)

// fast, goldens whose cases another implementation was run on: three times its mean KL on the same kind of file.
constexpr double kPeerFactor = 3;
constexpr double kFastGreedyMarginBf16 = 0.05;
constexpr double kFastGreedyMarginQuantised = 0.5;

Bars exact_bars(const FileKind& file) {
  Bars bars;
  bars.judge = file.quantised ? Judge::reference : Judge::golden;
  bars.logit_floor = kExactLogits;
  bars.float64_factor = file.quantised ? 0 : kExactFloat64Factor;
  bars.intermediate = kExactIntermediate;
  bars.judged_names = JudgedNames::all;
  bars.experts_tie = kExactExpertsTie;
  bars.ln_perplexity = kExactLnPerplexity;
  bars.greedy_logit_factor = kExactGreedyFactor;
  return bars;
}

Bars fast_bars(std::string_view golden_model, const FileKind& file) {
  Bars bars;
  bars.judge = file.quantised ? Judge::reference : Judge::golden;
  bars.intermediate = file.quantised ? kFastLayerEightBit : kFastLayerBf16;
  if (const PeerError* peer = find_peer_error(golden_model, file)) {
    bars.mean_kl = kPeerFactor * peer->mean_kl;
    bars.kl_cases = peer->cases;
    bars.greedy_margin = file.quantised ? kFastGreedyMarginQuantised : kFastGreedyMarginBf16;
    return bars;
  }
  bars.judged_names = JudgedNames::first_layer;
  if (file.quantised) {
    bars.median_relative = kFastMedianRelative;
  } else {
    bars.logit_floor = kExactLogits;
    bars.float64_factor = kFastFloat64Factor;
    bars.from_float64_only = true;
  }
  return bars;
}

}  // namespace

std::optional<double> Bars::logit_bar(double float64_difference) const {
  if (!logit_floor || (from_float64_only && float64_difference == 0)) return std::nullopt;
  return std::max(*logit_floor, float64_factor * float64_difference);
}

std::optional<double> Bars::greedy_bar(double float64_difference) const {
  const std::optional<double> logits = logit_bar(float64_difference);
  return greedy_logit_factor > 0 && logits ? std::optional<double>(greedy_logit_factor * *logits) : greedy_margin;
}

Bars bars_for(std::string_view golden_model, const FileKind& file, Arithmetic arithmetic) {
  return arithmetic == Arithmetic::exact ? exact_bars(file) : fast_bars(golden_model, file);
}

}  // namespace sluice

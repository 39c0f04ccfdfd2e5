#include "app/verify_bars.h"

#include <algorithm>

namespace sluice {
namespace {

// exact: weights decoded to f32, everything else f32; what is left is the order of sums.
constexpr double kExactLogits = 1e-3;
constexpr double kExactFloat64Factor = 10;  // of the golden's own distance to float64: long cases are that sensitive
constexpr double kExactIntermediate = 1e-4;
constexpr double kExactLnPerplexity = 1e-3;
constexpr double kExactExpertsTie = 1e-5;
constexpr double kExactGreedyFactor = 2;  // both logits may be off by the bar

// fast, random models: every rounding is amplified layer by layer, so only the first layer says something.
constexpr double kFastLayerBf16 = 2e-2;
constexpr double kFastLayerEightBit = 5e-2;

// fast, trained demo: three times the mean KL of llama.cpp on the same kind of file, over the same cases.
constexpr double kPeerFactor = 3;
constexpr int kPeerCases = 11;
constexpr double kFastGreedyMarginBf16 = 0.05;
constexpr double kFastGreedyMarginQuantised = 0.5;

// llama.cpp v0.5.0 on the CPU, F32 caches: mean KL over the golden's text and chat cases.
struct PeerError {
  std::string_view golden_model;
  Format format;
  double mean_kl;
};
constexpr PeerError kPeerErrors[] = {
    {"gemma4", Format::bf16, 1.5e-5},
    {"gemma4", Format::q8_0, 6.5e-4},
};

const PeerError* peer_error(std::string_view golden_model, const FileKind& file) {
  // The peer's number for bf16 stands for every file whose weights are the golden's.
  const Format format = file.quantised ? file.format : Format::bf16;
  const auto* found = std::find_if(std::begin(kPeerErrors), std::end(kPeerErrors), [&](const PeerError& peer) {
    return peer.golden_model == golden_model && peer.format == format;
  });
  return found == std::end(kPeerErrors) ? nullptr : found;
}

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
  if (const PeerError* peer = peer_error(golden_model, file)) {
    bars.mean_kl = kPeerFactor * peer->mean_kl;
    bars.kl_cases = kPeerCases;
    bars.greedy_margin = file.quantised ? kFastGreedyMarginQuantised : kFastGreedyMarginBf16;
    return bars;
  }
  bars.judged_names = JudgedNames::first_layer;
  return bars;
}

}  // namespace

FileKind kind_of_format(Format format) {
  using enum Format;
  static constexpr Format kWhole[] = {f32, bf16, f16, u2, u3,
                                      u4,  u5,   u6,  u8};  // u: MLX's, of whose numbers goldens are
  const bool whole = std::ranges::find(kWhole, format) != std::end(kWhole);
  return {.format = format, .quantised = !whole};
}

std::optional<double> Bars::logit_bar(double float64_difference) const {
  return logit_floor ? std::optional<double>(std::max(*logit_floor, float64_factor * float64_difference))
                     : std::nullopt;
}

std::optional<double> Bars::greedy_bar(double float64_difference) const {
  const std::optional<double> logits = logit_bar(float64_difference);
  return greedy_logit_factor > 0 && logits ? std::optional<double>(greedy_logit_factor * *logits) : greedy_margin;
}

Bars bars_for(std::string_view golden_model, const FileKind& file, Arithmetic arithmetic) {
  return arithmetic == Arithmetic::exact ? exact_bars(file) : fast_bars(golden_model, file);
}

}  // namespace sluice

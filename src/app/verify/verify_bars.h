// The bars of `sluice verify`: the largest errors that it allows a model. Each number is written once, here.
//
// The bars depend on the file (the golden's weights, or quantised ones), on the golden (the trained demo, for which
// llama.cpp's errors are known, or a random model) and on the arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/verify/file_kind.h"
#include "device/device.h"

namespace sluice {

// Who is right: the golden, or the reference device in exact arithmetic on the same file (quantised files).
enum class Judge : uint8_t { golden, reference };

// The named intermediates to which a bar applies; other intermediates are only reported. first_layer: layer.0.* and
// hidden.1, over tokens whose chosen experts are the judge's.
enum class JudgedNames : uint8_t { all, first_layer, none };

// With fewer rows a median means nothing.
inline constexpr size_t kMedianRows = 8;

// A bar that is absent is not held: the number is only reported.
struct Bars {
  Judge judge = Judge::golden;
  std::optional<double> logit_floor;  // largest difference allowed in every case ...
  double float64_factor = 0;          // ... or this many times the case's own float64 difference, if larger
  bool from_float64_only = false;     // no bar for a case that does not state it
  double intermediate = 0;            // relative norm from which on a named intermediate counts as different
  JudgedNames judged_names = JudgedNames::none;
  std::optional<double> experts_tie;  // chosen experts may differ where selection scores are this close
  std::optional<double> ln_perplexity;
  std::optional<double> greedy_margin;  // greedy tokens may part where the judge's two best are closer than this ...
  double greedy_logit_factor = 0;       // ... or this many times the case's logit bar
  std::optional<double> mean_kl;        // over the cases, golden to ours; held if all `kl_cases` cases were run
  int kl_cases = 0;
  // The median over the rows of all cases: norm of the difference from the judge's logits, divided by their norm. Held
  // if at least kMedianRows rows were compared.
  std::optional<double> median_relative;

  // The bars for a case with that float64_difference.
  std::optional<double> logit_bar(double float64_difference) const;
  std::optional<double> greedy_bar(double float64_difference) const;
};
Bars bars_for(std::string_view golden_model, const FileKind& file, Arithmetic arithmetic);

}  // namespace sluice

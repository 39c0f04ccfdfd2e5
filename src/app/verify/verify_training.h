// A training case of a golden: the same adapter trained by the same steps, held to the golden's gradients, losses and
// final factors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/verify/golden.h"
#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "model/model.h"

namespace sluice {

// The largest differences over all runs of the case; none where the golden has no such numbers.
struct TrainErrors {
  std::optional<double> gradient;  // of a factor: norm of the difference over the norm of the golden's gradient
  std::string gradient_of;
  double loss = 0;              // of a step's loss, as a share of the golden's
  std::optional<double> final;  // of a factor after the last step, as gradient
  std::string final_of;
  std::optional<double> accumulated;  // of a step's loss, a sequence at a time instead of all at once, as a share
  size_t steps = 0;
};

// What training in exact arithmetic is held to.
inline constexpr double kGradientBar = 1e-4, kLossBar = 1e-4, kFinalBar = 1e-3, kAccumulatedBar = 1e-6;

Result<TrainErrors> train_case(const Model& model, const Golden& golden, const GoldenCase& golden_case, Device& device,
                               Budget& budget, Arithmetic arithmetic);
// One sentence for each bar that was missed.
std::vector<std::string> missed_bars(const TrainErrors& errors);

}  // namespace sluice

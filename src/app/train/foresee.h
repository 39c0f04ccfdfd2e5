// sluice train --dry-run: the memory and the time that training takes. Memory is that of the plan, time is measured on
// a piece of the training.
#pragma once

#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/open/open.h"
#include "base/result.h"
#include "train/trainer.h"

namespace sluice {

// The reserve of the machine's budget is measured. The memory is also shown when there is not as much.
Result<int> foresee(const Model& model, TrainedFactors& factors, Machine& machine, std::vector<TrainSequence> examples,
                    const TrainerOptions& options, const Arguments& arguments, Console& console);

}  // namespace sluice

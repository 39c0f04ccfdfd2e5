// The options of sluice train, and what they say to new_adapter() and to the trainer.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "model/adapters/new_adapter.h"
#include "train/trainer.h"

namespace sluice {

std::vector<OptionSpec> train_options();

Status check_targets(const std::string& targets);   // of --targets
AdapterParts parts_of(const std::string& targets);  // likewise
TrainerOptions trainer_options(const Arguments& arguments);

}  // namespace sluice

// A model of which only the header need be here: enough to plan with, and not to run.
#pragma once

#include "app/cli/args.h"
#include "base/result.h"
#include "checkpoint/model_files.h"
#include "engine/plan/memory_plan.h"
#include "model/model.h"

namespace sluice {

struct PlannedModel {
  Model model;
  WeightFiles files;
  bool header_only = false;
};
Result<PlannedModel> open_planned(const ModelFiles& found, const Arguments& arguments);

}  // namespace sluice

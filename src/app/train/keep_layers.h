// --keep-layers: how many layers of a training step are kept (train/training_program.h), as asked for or by the memory
// that there is.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "app/cli/args.h"
#include "app/open/open.h"
#include "base/budget.h"
#include "base/result.h"
#include "model/model.h"

namespace sluice {

OptionSpec keep_layers_option();

// `memory` gives the lines of a training that keeps so many.
Result<uint32_t> layers_to_keep(const Arguments& arguments, const Machine& machine, const Model& model,
                                const std::function<Result<std::vector<MemoryLine>>(uint32_t kept)>& memory);

}  // namespace sluice

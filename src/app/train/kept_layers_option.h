// --keep-layers: how many layers of a training step are kept (train/training_program.h), as asked for or by the memory
// that there is.
#pragma once

#include <cstdint>

#include "app/cli/args.h"
#include "app/open/open.h"
#include "base/result.h"
#include "model/model.h"
#include "train/kept_layers.h"

namespace sluice {

OptionSpec keep_layers_option();

Result<uint32_t> layers_to_keep(const Arguments& arguments, const Machine& machine, const Model& model,
                                const MemoryOfKept& memory);

}  // namespace sluice

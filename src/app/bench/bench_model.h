// The synthetic model that sluice bench measures or writes: a named shape in a mix of formats.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/budget.h"
#include "base/threads.h"
#include "model/model.h"
#include "model/synthetic.h"

namespace sluice {

std::vector<OptionSpec> synthetic_options();  // --shape, --format, --routing, --write, --write-mmproj
// An error is a mistake in the arguments.
Result<SyntheticModel> synthetic_model(const Arguments& arguments);
Result<SyntheticModel> synthetic_towers(const Arguments& arguments);

// Makes the model in memory that is reserved in the budget. The model owns that memory.
Result<Model> place_synthetic(const SyntheticModel& synthetic, ThreadPool& pool, Budget& budget);
// Writes the shape's towers as an mmproj file.
Status write_synthetic_towers(const SyntheticModel& towers, const std::string& path, Console& console);
// Writes the model as a GGUF file, with a vocabulary of bytes and unused tokens.
Status write_synthetic(const SyntheticModel& synthetic, const std::string& path, Console& console);

}  // namespace sluice

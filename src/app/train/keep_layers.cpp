#include "app/train/keep_layers.h"

#include <algorithm>

#include "train/kept_layers.h"

namespace sluice {

OptionSpec keep_layers_option() {
  return {.name = "--keep-layers",
          .argument = "N",
          .kind = OptionKind::integer,
          .help =
              "layers whose products are kept for their gradients and not computed twice, which takes memory. "
              "Without it as many as --memory or --device-memory has room for, or with neither as many as half as "
              "much memory again has. On the processor it changes no bit, on GPUs the last ones",
          .least = 0,
          .most = 1e6};
}

Result<uint32_t> layers_to_keep(const Arguments& arguments, const Machine& machine, const Model& model,
                                const std::function<Result<std::vector<MemoryLine>>(uint32_t kept)>& memory) {
  const uint32_t layers = model.facts().layers;
  if (arguments.given("--keep-layers"))
    return std::min(static_cast<uint32_t>(arguments.integer("--keep-layers")), layers);
  const bool limited = machine.bound().by == MemoryBound::By::request;
  return most_kept_layers(layers, machine.budget, limited ? KeptMemory::to_limit : KeptMemory::by_half, memory);
}

}  // namespace sluice

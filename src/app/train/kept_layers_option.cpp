#include "app/train/kept_layers_option.h"

#include <algorithm>

namespace sluice {

OptionSpec keep_layers_option() {
  return {.name = "--keep-layers",
          .argument = "N",
          .kind = OptionKind::integer,
          .help =
              "layers that keep the results of their products for the gradients, which takes memory and saves "
              "computing them twice. Without it as many as fit into --memory, or on a GPU into --device-memory; "
              "without that limit as many as fit into half as much memory again. The processor gives the same "
              "bits for any number, a GPU the same but for rounding",
          .least = 0,
          .most = 1e6};
}

Result<uint32_t> layers_to_keep(const Arguments& arguments, const Machine& machine, const Model& model,
                                const MemoryOfKept& memory) {
  const uint32_t layers = model.facts().layers;
  if (arguments.given("--keep-layers"))
    return std::min(static_cast<uint32_t>(arguments.integer("--keep-layers")), layers);
  const bool limited = machine.bound().by == MemoryBound::By::request;
  return most_kept_layers(layers, machine.budget, limited ? KeptMemory::to_limit : KeptMemory::by_half, memory);
}

}  // namespace sluice

// The experts that a text's tokens chose, layer by layer, recorded from a model or drawn from a distribution. Hit rates
// of the expert store and of its replacement are computed from such traces.
//
// As a file it is text: a line "sluice routing 1: LAYERS layers, EXPERTS experts, USED a token", then a line for each
// token and layer with the experts' numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct RoutingTrace {
  uint32_t layers = 0;                // with experts
  uint32_t experts = 0;               // of a layer
  uint32_t used = 0;                  // by a token
  std::vector<uint32_t> chosen = {};  // [tokens, layers, used]

  size_t tokens() const { return layers == 0 ? 0 : chosen.size() / (size_t{layers} * used); }
  std::span<const uint32_t> at(size_t token, uint32_t layer) const {
    return std::span(chosen).subspan((token * layers + layer) * used, used);
  }
};

Result<RoutingTrace> read_routing(const std::string& path);
Status write_routing(const RoutingTrace& trace, const std::string& path);

}  // namespace sluice

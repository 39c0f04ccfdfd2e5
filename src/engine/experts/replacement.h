// Which expert gives way when another one needs its slot. The store tells which experts each layer uses and gives up
// the one that is worth least among those nobody needs just now.
//
//   lru       the one that was used longest ago
//   lfu       the one that was used least often, older uses counting less
//   next_use  the one whose next use is farthest away, as far as one can know: a layer comes again only after all
//             others have, and how likely it then chooses an expert is estimated from its uses. How fast a text's
//             topics change is not known beforehand, so several estimates forget at different speeds and are weighed
//             by how well each foretold the uses so far.
//
// bench/expert_cache prints their hit rates; what else was tried stands beside them in docs/benchmarks.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/options.h"

namespace sluice {

struct ExpertCounts {
  uint32_t layers = 0;   // with experts
  uint32_t experts = 0;  // of a layer
};

class Replacement {
 public:
  virtual ~Replacement() = default;
  // `layer` computes with `experts`, each once, be they in memory or not. Layers take turns in ascending order.
  virtual void use(uint32_t layer, std::span<const uint32_t> experts) = 0;
  // The larger, the longer to keep; to be compared between two calls of use().
  virtual double worth(uint32_t layer, uint32_t expert) const = 0;
};

inline constexpr ReplacementKind kReplacements[] = {ReplacementKind::lru, ReplacementKind::lfu,
                                                    ReplacementKind::next_use};
const char* replacement_name(ReplacementKind kind);
std::unique_ptr<Replacement> make_replacement(ReplacementKind kind, const ExpertCounts& counts);

}  // namespace sluice

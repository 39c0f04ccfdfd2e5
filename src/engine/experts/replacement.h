// Which expert to evict when another one needs its slot. The store reports the experts that each layer uses, and evicts
// the one worth least among those that no step needs now.
//
//   lru       the least recently used one
//   lfu       the least frequently used one; older uses count less
//   next_use  the one whose estimated next use is farthest away. A layer comes again only after all others. Its uses
//             tell how likely it then chooses an expert. Nobody knows how fast a text's topics change, so several
//             estimates forget at different speeds, and each is weighted by how well it predicted past uses.
//
// bench/expert_cache prints their hit rates (bench/results/expert_replacement.csv). docs/experiments.md has what else
// was tried.
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
  // `layer` uses `experts`, each once, in memory or not. Layers take turns in ascending order.
  virtual void use(uint32_t layer, std::span<const uint32_t> experts) = 0;
  // A larger value means: keep longer. Values compare only between two calls of use().
  virtual double worth(uint32_t layer, uint32_t expert) const = 0;
};

inline constexpr ReplacementKind kReplacements[] = {ReplacementKind::lru, ReplacementKind::lfu,
                                                    ReplacementKind::next_use};
const char* replacement_name(ReplacementKind kind);
std::unique_ptr<Replacement> make_replacement(ReplacementKind kind, const ExpertCounts& counts);

}  // namespace sluice

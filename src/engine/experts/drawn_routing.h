// Routing drawn from a distribution, for when none was recorded.
#pragma once

#include <cstdint>

#include "engine/experts/routing_trace.h"

namespace sluice {

// Texts whose topic changes. Within a topic, the expert of rank r of a layer is chosen in proportion to r^-exponent.
// Each topic ranks half of a layer's experts in its own way and shares the ranks of the others.
struct DrawnRouting {
  uint32_t layers = 0, experts = 0, used = 0, tokens = 0;
  double exponent = 1;
  uint32_t topics = 1;         // all equally likely when the topic changes
  uint32_t topic_tokens = 64;  // average length of a topic
  uint64_t seed = 0;
};
RoutingTrace draw_routing(const DrawnRouting& wanted);

}  // namespace sluice

// Routing drawn from a distribution, where none was recorded.
#pragma once

#include <cstdint>

#include "engine/experts/routing_trace.h"

namespace sluice {

// Texts whose topic changes: within a topic the expert of rank r of a layer is chosen in proportion to r^-exponent, and
// every topic ranks half of a layer's experts in its own way, the others as all topics do.
struct DrawnRouting {
  uint32_t layers = 0, experts = 0, used = 0, tokens = 0;
  double exponent = 1;
  uint32_t topics = 1;         // each as likely as any other when the topic changes
  uint32_t topic_tokens = 64;  // that a topic lasts, on average
  uint64_t seed = 0;
};
RoutingTrace draw_routing(const DrawnRouting& wanted);

}  // namespace sluice

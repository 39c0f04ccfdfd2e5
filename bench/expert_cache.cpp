// Hit rates of an expert cache: LRU, LFU with decay and ours, and what nobody can beat, on generated routing and on
// recorded traces given as arguments. The first half of a trace warms up.
//
//   build/release/bench/expert_cache [TRACE ...]
#include <cstdio>
#include <string>

#include "engine/experts/drawn_routing.h"
#include "engine/experts/replay.h"

namespace sluice {
namespace {

void print_head() {
  std::printf("%-34s %6s", "routing", "slots");
  for (const ReplacementKind kind : kReplacements) std::printf(" %9s", replacement_name(kind));
  std::printf(" %9s\n", "Belady");
}

void print_line(const std::string& name, const RoutingTrace& trace, double share) {
  const auto slots = static_cast<uint32_t>(share * trace.layers * trace.experts);
  const size_t uncounted = trace.tokens() / 2;
  std::printf("%-34s %4.0f %%", name.c_str(), 100 * share);
  for (const ReplacementKind kind : kReplacements) {
    const auto replacement = make_replacement(kind, {.layers = trace.layers, .experts = trace.experts});
    std::printf(" %7.1f %%", 100 * replay(trace, slots, *replacement, uncounted).hit_rate());
  }
  std::printf(" %7.1f %%\n", 100 * replay_best(trace, slots, uncounted).hit_rate());
}

void print_trace(const std::string& name, const RoutingTrace& trace) {
  for (const double share : {0.1, 0.25, 0.5}) print_line(name, trace, share);
}

void print_drawn() {
  for (const double exponent : {0.6, 0.8, 1.0, 1.2}) {
    for (const uint32_t topics : {1, 8}) {
      const std::string drift = topics == 1 ? "one topic" : "8 topics of 64 tokens";
      char name[64];
      std::snprintf(name, sizeof name, "zipf %.1f, %s", exponent, drift.c_str());
      print_trace(name, draw_routing({.layers = 16,
                                      .experts = 128,
                                      .used = 8,
                                      .tokens = 1024,
                                      .exponent = exponent,
                                      .topics = topics,
                                      .topic_tokens = 64,
                                      .seed = 1}));
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int count, char** words) {
  using namespace sluice;
  print_head();
  for (int i = 1; i < count; ++i) {
    const Result<RoutingTrace> trace = read_routing(words[i]);
    if (!trace) {
      std::fprintf(stderr, "%s\n", trace.error().text.c_str());
      return 1;
    }
    print_trace(words[i], *trace);
  }
  if (count == 1) print_drawn();
}

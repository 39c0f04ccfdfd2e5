// Parity cases of clustered_logits.
#include "graph/cases.h"
#include "graph/ops/clustered.h"

namespace sluice {
namespace {

struct Sizes {
  uint32_t clusters, of_cluster, columns, k;
};

// A token may stand in several clusters here, and some tokens in none.
OpCase clustered_case(const Sizes& sizes, Format format, uint32_t levels = 0) {
  const auto& [clusters, of_cluster, columns, k] = sizes;
  const uint32_t tokens = clusters * of_cluster;
  CaseBuilder c(cat(k, " of ", clusters, " clusters of ", of_cluster, ", ", columns, " columns, ", format_name(format),
                    levels == 0 ? "" : ", ties"));
  const Value x = c.input(columns), scores = c.input(clusters, 1, {.levels = levels});
  const Weight table = c.weight({.rows = tokens, .columns = columns}, format);
  const auto last = static_cast<float>(tokens - 1);
  const Weight order =
      c.weight({.rows = clusters, .columns = of_cluster}, Format::f32, {.low = 0, .high = last, .levels = tokens});
  c.output(clustered_logits(x, scores, table, order, k));
  c.row_steps(kFewRows);
  return c.done();
}

}  // namespace

std::vector<OpCase> ClusteredLogits::cases() {
  std::vector<OpCase> cases;
  cases.push_back(clustered_case({48, 16, 32, 6}, Format::bf16));
  cases.push_back(clustered_case({7, 5, 33, 1}, Format::f32));
  cases.push_back(clustered_case({7, 5, 33, 7}, Format::f16));
  cases.push_back(clustered_case({300, 1, 20, 32}, Format::f32, 5));
  cases.push_back(clustered_case({5, 1, 64, 2}, Format::q8_0));
  cases.push_back(clustered_case({4, 20, 256, 2}, Format::q4_k));
  cases.push_back(clustered_case({5, 900, 8, 1}, Format::f32));
  return cases;
}

}  // namespace sluice

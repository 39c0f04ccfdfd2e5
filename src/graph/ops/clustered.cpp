#include "graph/ops/clustered.h"

#include "base/limits.h"
#include "graph/op_check.h"

namespace sluice {

ValueType ClusteredLogits::result(const Program& program) const {
  return {.extent = type_of(program, x).extent, .width = shape_of(program, table).rows};
}

Status ClusteredLogits::check(const Program& program) const {
  OpCheck check(program, kDoc.name);
  const ValueType in = check.value("x", x), by = check.value("scores", scores);
  const WeightShape rows = check.weight("table", table), clusters = check.weight("order", order);
  check.matrix("table", table, 1, rows.rows, in.columns());
  check.matrix("order", order, 1, by.columns(), clusters.columns);
  check.want(in.heads == 1, "x is ", describe(in), ": want one head");
  check.want(by.heads == 1 && by.extent == in.extent, "scores is ", describe(by), ": want one row for each of x");
  check.want(k >= 1 && k <= by.columns() && k <= kMaxClusters, "k is ", k, ": want 1 to the ", by.columns(),
             " clusters, at most ", kMaxClusters);
  check.want(by.columns() <= kMaxClusters, "scores has ", by.columns(), " clusters: want at most ", kMaxClusters);
  check.type("out", out, result(program));
  return check.status();
}

}  // namespace sluice

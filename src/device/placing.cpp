#include "device/placing.h"

#include <string>

#include "format/format.h"
#include "graph/op_check.h"

namespace sluice {

Result<std::vector<TensorSource>> find_planned(const PlanRequest& request, const WeightSource& weights) {
  std::vector<TensorSource> sources;
  sources.reserve(request.weights.size());
  for (size_t i = 0; i < request.weights.size(); ++i) {
    const std::string& name = request.program->weights[i].name;
    TRY(TensorSource found, weights.find(name));
    const PlacedShape& planned = request.weights[i];
    if (found.shape != planned.shape || found.format != planned.format || found.parts.empty() == planned.in_parts)
      return error(ErrorKind::invalid, "weight ", name, ": found ", format_name(found.format), " ",
                   describe(found.shape), ": want the planned ", format_name(planned.format), " ",
                   describe(planned.shape));
    sources.push_back(std::move(found));
  }
  return sources;
}

Result<std::vector<Reservation>> reserve_planned(Budget& budget, const std::vector<MemoryLine>& lines) {
  std::vector<Reservation> reservations;
  reservations.reserve(lines.size());
  for (const MemoryLine& line : lines) {
    TRY(Reservation reservation, budget.reserve(line.domain, line.purpose, line.bytes));
    reservations.push_back(std::move(reservation));
  }
  return reservations;
}

}  // namespace sluice

#include "device/placing.h"

#include <algorithm>
#include <string>

#include "format/format.h"
#include "graph/op_check.h"

namespace sluice {

namespace {

constexpr std::string_view kAdapterSuffix = ".adapter";

}  // namespace

std::string lacking_of(const std::vector<std::string>& missing, const Op& op) {
  const auto is_missing = [&](std::string_view name) { return std::ranges::find(missing, name) != missing.end(); };
  if (is_missing(op_name(op))) return std::string(op_name(op));
  const auto* embed = std::get_if<Embed>(&op);
  if (embed != nullptr && embed->adapter && is_missing(kEmbedAdapter)) return kEmbedAdapter;
  const auto* linear = std::get_if<Linear>(&op);
  if (linear != nullptr && linear->adapter && is_missing(kLinearAdapter)) return kLinearAdapter;
  const auto* experts = std::get_if<Experts>(&op);
  if (experts != nullptr && experts->adapters && is_missing(kExpertsAdapter)) return kExpertsAdapter;
  const auto* attention = std::get_if<Attention>(&op);
  const bool adapted = attention != nullptr && (attention->expand.key_adapter || attention->expand.value_adapter);
  return adapted && is_missing(kAttentionAdapter) ? kAttentionAdapter : "";
}

Status check_planned(const DeviceInfo& info, const PlanRequest& request, const char* wanted,
                     const std::function<bool(WeightId)>& takes) {
  const Program& program = *request.program;
  CHECK(request.weights.size() == program.weights.size() && request.pages.size() == program.groups.size());
  for (const Op& op : program.ops)
    if (const std::string lacking = lacking_of(info.missing, op); ends_with(lacking, kAdapterSuffix))
      return error(ErrorKind::unsupported, "adapters: found one that changes ",
                   lacking.substr(0, lacking.size() - kAdapterSuffix.size()), ": want one of other weights for the ",
                   info.name, " device, or the cpu device");
    else if (!lacking.empty())
      return error(ErrorKind::unsupported, "program: found ", lacking, ": want an op that the ", info.name,
                   " device has");
  if (request.expert_slots.count != 0 && !info.expert_slots)
    return error(ErrorKind::unsupported, "experts: found ", request.expert_slots.count,
                 " slots to hold them: want all in memory on the ", info.name, " device");
  CHECK(request.trained.empty() || info.trains_factors);
  for (WeightId id = 0; id < program.weights.size(); ++id) {
    const WeightDecl& decl = program.weights[id];
    const PlacedShape& placed = request.weights[id];
    const FormatInfo& format = format_info(placed.format);
    if (placed.shape != decl.shape)
      return error(ErrorKind::invalid, "weight ", decl.name, ": found ", describe(placed.shape), ": want ",
                   describe(decl.shape));
    if (!takes(id))
      return error(ErrorKind::unsupported, "weight ", decl.name, ": found format ", format.name, ": want ", wanted);
    if (decl.shape.columns % format.block_elements != 0)
      return error(ErrorKind::invalid, "weight ", decl.name, ": found ", decl.shape.columns, " columns of ",
                   format.name, ": want a multiple of ", format.block_elements);
  }
  return {};
}

bool may_read(const PlanRequest& request, ValueId value) {
  const auto is_value = [&](const NamedValue& named) { return named.value == value; };
  return std::ranges::any_of(request.program->outputs, is_value) ||
         (request.traced && std::ranges::any_of(request.program->names, is_value));
}

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

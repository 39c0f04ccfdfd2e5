#include "model/adapters/adapter_targets.h"

#include <algorithm>

#include "base/text.h"
#include "model/family.h"

namespace sluice {
namespace {

// The names that a head has where it is a weight of its own.
const char* head_name(Dialect dialect) { return dialect == Dialect::gguf ? "output.weight" : "lm_head.weight"; }

}  // namespace

AdapterTargets::AdapterTargets(const Model& model, Dialect dialect)
    : table_(&model.family_model().programs.front().weights), prefixes_(&model.family().prefixes), dialect_(dialect) {
  const BoundWeights& weights = model.weights();
  const bool has_head = weights.bound(kHeadWeight) != nullptr;
  for (const WeightRow& row : table_->rows()) {
    if (weights.bound(row.name) == nullptr) continue;
    for (const SourceName& source : row.sources(dialect)) add(source.name, row, source);
    if (row.name != kTableWeight || has_head) continue;
    head_name_.name = head_name(dialect);
    add(head_name_.name, row, head_name_);
  }
}

void AdapterTargets::add(const std::string& name, const WeightRow& row, const SourceName& source) {
  by_name_[name].push_back({.row = &row, .source = &source});
}

std::string AdapterTargets::without_prefix(const std::string& name) const {
  if (dialect_ == Dialect::gguf) return name;
  for (const std::string& prefix : *prefixes_)
    if (starts_with(name, prefix)) return name.substr(prefix.size());
  return name;
}

std::vector<AdapterTarget> AdapterTargets::find(const std::string& name) const {
  const std::string used = without_prefix(name);
  if (const auto found = by_name_.find(used); found != by_name_.end()) return found->second;
  // A matrix of one expert: its number stands where the table's name has '*'.
  std::vector<std::string> parts = split(used, '.');
  for (std::string& part : parts) {
    const std::optional<int64_t> number = parse_integer(part);
    if (!number || *number < 0) continue;
    const std::string digits = std::exchange(part, "*");
    std::string joined;
    for (const std::string& one : parts) joined += joined.empty() ? one : "." + one;
    part = digits;
    const auto found = by_name_.find(joined);
    if (found == by_name_.end()) continue;
    std::vector<AdapterTarget> targets = found->second;
    for (AdapterTarget& target : targets) {
      target.one_expert = true;
      target.expert = static_cast<uint32_t>(std::min<int64_t>(*number, UINT32_MAX));
    }
    return targets;
  }
  return {};
}

std::vector<std::string> AdapterTargets::parameters_of(const std::string& module) const {
  const std::string begin = without_prefix(module) + ".";
  std::vector<std::string> names;
  for (const auto& [name, targets] : by_name_) {
    const bool is_direct = starts_with(name, begin) && name.find('.', begin.size()) == std::string::npos;
    if (is_direct && !ends_with(name, ".weight")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

bool AdapterTargets::in_tower(const std::string& name) const {
  // A tower's module lies beside the text model, so it has fewer prefixes than the text's names.
  for (size_t dot = 0; dot != std::string::npos; dot = name.find('.', dot + 1))
    if (table_->in_tower(dialect_, dot == 0 ? name : name.substr(dot + 1))) return true;
  return false;
}

}  // namespace sluice

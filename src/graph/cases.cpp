#include "graph/cases.h"

#include <numeric>

namespace sluice {

namespace {

constexpr std::string_view kBlocks = "blocks";

template <size_t... I>
std::vector<std::string_view> op_names(std::index_sequence<I...>) {
  return {std::variant_alternative_t<I, OpAlternatives::Type>::kDoc.name...};
}

template <size_t... I>
std::vector<OpCase> op_cases(std::string_view name, std::index_sequence<I...>) {
  std::vector<OpCase> cases;
  const auto take = [&]<class O>(const O*) {
    if (O::kDoc.name == name) cases = O::cases();
  };
  (take(static_cast<const std::variant_alternative_t<I, OpAlternatives::Type>*>(nullptr)), ...);
  return cases;
}

using Catalogue = std::make_index_sequence<std::variant_size_v<OpAlternatives::Type>>;

uint32_t row_count(const std::vector<CaseRun>& runs) {
  return std::accumulate(runs.begin(), runs.end(), 0u, [](uint32_t sum, const CaseRun& run) { return sum + run.rows; });
}

}  // namespace

std::vector<Format> block_formats() {
  std::vector<Format> formats;
  for (const FormatInfo& info : all_formats())
    if (info.decodable && info.block_elements > 1) formats.push_back(info.format);
  return formats;
}

std::vector<std::string_view> case_subjects() {
  std::vector<std::string_view> subjects = op_names(Catalogue());
  subjects.push_back(kBlocks);
  return subjects;
}

std::vector<OpCase> cases_of(std::string_view subject) {
  return subject == kBlocks ? block_cases() : op_cases(subject, Catalogue());
}

Value CaseBuilder::input(uint32_t width, uint32_t heads, Fill fill, Extent extent) {
  describe_adapters();
  case_.inputs.push_back(fill);
  return recorder_.input(cat("x", case_.inputs.size()), {.extent = extent, .heads = heads, .width = width});
}

Value CaseBuilder::integers(uint32_t width, Fill fill, Extent extent) {
  describe_adapters();
  case_.inputs.push_back(fill);
  return recorder_.input(cat("i", case_.inputs.size()), {.extent = extent, .width = width, .element = Element::i32});
}

Value CaseBuilder::wanted() {
  describe_adapters();
  case_.inputs.push_back({});
  return recorder_.input("wanted", {.extent = {.symbol = Symbol::wanted}, .width = 1, .element = Element::i32});
}

Weight CaseBuilder::weight(WeightShape shape, Format format, Fill fill) {
  describe_adapters();
  case_.weights.push_back({.format = format, .fill = fill});
  return recorder_.weight(cat("w", case_.weights.size()), shape);
}

void CaseBuilder::output(Value value) { recorder_.output(value, cat("out", recorder_.program().outputs.size())); }

void CaseBuilder::step(std::vector<CaseRun> runs) {
  std::vector<int32_t> all(row_count(runs));
  std::iota(all.begin(), all.end(), 0);
  step(std::move(runs), std::move(all));
}

void CaseBuilder::step(std::vector<CaseRun> runs, std::vector<int32_t> wanted) {
  case_.steps.push_back({.runs = std::move(runs), .wanted = std::move(wanted)});
}

void CaseBuilder::row_steps(const std::vector<uint32_t>& counts) {
  for (const uint32_t rows : counts) step(rows == 0 ? std::vector<CaseRun>{} : std::vector<CaseRun>{{.rows = rows}});
}

void CaseBuilder::media_steps() {
  add_step({.media = {{.sequence = 3, .rows = 66}}});
  add_step({.media = {{.sequence = 0, .rows = 5}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 17}}});
  add_step({});
}

void CaseBuilder::adapters(const CaseAdapters& adapters) {
  adapters_ = adapters;
  recorder_.take_adapters(
      {.slots = adapters.slots, .rank = adapters.rank, .weights = adapters.weights, .embeddings = adapters.embeddings});
}

void CaseBuilder::describe_adapters() {
  const Program& program = recorder_.program();
  for (size_t i = case_.inputs.size(); i < program.inputs.size(); ++i)
    case_.inputs.push_back(program.inputs[i].name == "adapter_slots"
                               ? Fill{.low = 0, .high = static_cast<float>(adapters_.slots)}
                               : adapters_.scales);
  for (size_t i = case_.weights.size(); i < program.weights.size(); ++i)
    case_.weights.push_back({.format = program.weights[i].name.ends_with("_a") ? adapters_.a : adapters_.b});
}

OpCase CaseBuilder::done() {
  describe_adapters();
  Result<Program> program = recorder_.finish();
  CHECK(program.ok());
  case_.program = *std::move(program);
  return std::move(case_);
}

}  // namespace sluice

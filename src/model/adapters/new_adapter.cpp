#include "model/adapters/new_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/files/file.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/safetensors_writer.h"
#include "graph/op.h"
#include "model/family.h"

namespace sluice {
namespace {

// A matrix as Hugging Face stores it: for experts that are fused, all of them.
struct Module {
  uint32_t experts = 1, rows = 0, columns = 0;
  bool is_parameter = false;  // a tensor of fused experts, not a module's ".weight"
};

bool is_asked_for(const AdapterParts& parts, std::string_view module) {
  if (module.find(".experts.") != std::string_view::npos) return parts.experts;
  if (module.find("self_attn.") != std::string_view::npos) return parts.attention;
  if (module.find("linear_attn.") != std::string_view::npos) return parts.delta_net;
  return parts.mlp;
}

// Weights of layers that the text program multiplies by, routers aside.
std::set<std::string> multiplied(const Program& program) {
  std::set<std::string> names;
  std::set<WeightId> routers;
  std::map<ValueId, WeightId> made_by;
  const auto take = [&](WeightId id) { names.insert(program.weights[id].name); };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (program.layers[i] < 0) continue;
    if (const auto* linear = std::get_if<Linear>(&op)) {
      take(linear->weight);
      made_by[linear->out] = linear->weight;
    }
    if (const auto* experts = std::get_if<Experts>(&op))
      for (const WeightId id : {experts->gate, experts->up, experts->down}) take(id);
    if (const auto* attention = std::get_if<Attention>(&op); attention != nullptr && attention->expand)
      for (const WeightId id : {attention->expand.key, attention->expand.value}) take(id);
    const auto* route = std::get_if<Route>(&op);
    if (route != nullptr && made_by.contains(route->logits)) routers.insert(made_by[route->logits]);
  }
  for (const WeightId id : routers) names.erase(program.weights[id].name);
  return names;
}

// The name under which transformers has the weight in memory: fused experts have no ".weight".
const SourceName* source_of(const WeightRow& row, bool experts) {
  const auto joint = std::ranges::find_if(row.hugging_face, &SourceName::one_matrix);
  if (joint != row.hugging_face.end()) return &*joint;
  for (const SourceName& source : row.hugging_face) {
    const bool fits = experts ? !ends_with(source.name, ".weight") : ends_with(source.name, ".weight");
    if (fits && source.name.find('*') == std::string::npos && !source.transposed) return &source;
  }
  return nullptr;
}

// By name behind the text model's prefix.
Result<std::map<std::string, Module>> find_modules(const Model& model, const AdapterParts& parts) {
  TRY(const Program program, model.record_text({.media = false}));
  const std::set<std::string> names = multiplied(program);
  std::map<std::string, Module> modules;
  for (const WeightRow& row : model.family_model().programs.front().weights.rows()) {
    if (!names.contains(row.name)) continue;
    const SourceName* source = source_of(row, row.shape.experts > 1);
    if (source == nullptr || !is_asked_for(parts, source->name)) continue;
    const uint32_t rows = source->is_whole() ? row.shape.rows : source->total_rows;
    const bool is_parameter = !ends_with(source->name, ".weight");
    const std::string name = is_parameter ? source->name : source->name.substr(0, source->name.size() - 7);
    modules[name] = {.experts = source->one_matrix ? 1 : row.shape.experts,
                     .rows = source->one_matrix ? rows * row.shape.experts : rows,
                     .columns = row.shape.columns,
                     .is_parameter = is_parameter};
  }
  if (modules.empty())
    return error(ErrorKind::invalid, model.checkpoint().path(), ": has no products of these targets: want others");
  return modules;
}

// PEFT wraps the module of fused experts once for each of its two parameters. The wrapper of down_proj is the outer
// one, so its factors have the module's own name, and those of gate_up_proj lie below ".base_layer".
std::string factor_module(const std::string& name, const Module& module) {
  if (!module.is_parameter) return name;
  const size_t dot = name.rfind('.');
  const bool is_outer = name.substr(dot + 1) == "down_proj";
  return name.substr(0, dot) + (is_outer ? "" : ".base_layer");
}

// torch's kaiming_uniform_(a=sqrt(5)): uniform within 1 / sqrt(columns).
std::vector<float> drawn(size_t count, uint32_t columns, uint64_t seed, uint32_t tensor) {
  std::vector<float> numbers(count);
  const double bound = 1 / std::sqrt(static_cast<double>(columns));
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (uint64_t i = 0; i < count; ++i) {
    const PhiloxCounter counter = {static_cast<uint32_t>(i / 4), static_cast<uint32_t>(i / 4 >> 32), tensor, 0};
    const double uniform = (philox4x32(counter, key)[i % 4] + 0.5) / 4294967296.0;
    numbers[static_cast<size_t>(i)] = static_cast<float>(bound * (2 * uniform - 1));
  }
  return numbers;
}

// The members that PEFT's LoraConfig needs to load it; others have their defaults there.
Json config_of(const NewAdapterOptions& options, const std::map<std::string, Module>& modules) {
  std::set<std::string> names, parameters;
  for (const auto& [name, module] : modules) {
    const std::vector<std::string> parts = split(name, '.');
    module.is_parameter
        ? parameters.insert(cat(parts[parts.size() - 3], ".", parts[parts.size() - 2], ".", parts.back()))
        : names.insert(parts.back());
  }
  Json config = Json::Object{{"alpha_pattern", Json::Object{}},
                             {"base_model_name_or_path", options.base_model},
                             {"bias", "none"},
                             {"fan_in_fan_out", false},
                             {"inference_mode", true},
                             {"init_lora_weights", true},
                             {"lora_alpha", options.alpha},
                             {"lora_dropout", 0.0},
                             {"modules_to_save", Json()},
                             {"peft_type", "LORA"},
                             {"r", static_cast<int64_t>(options.rank)},
                             {"rank_pattern", Json::Object{}},
                             {"target_modules", Json::Array(names.begin(), names.end())},
                             {"task_type", "CAUSAL_LM"},
                             {"use_dora", false},
                             {"use_rslora", false}};
  if (!parameters.empty()) config.add("target_parameters", Json::Array(parameters.begin(), parameters.end()));
  return config;
}

}  // namespace

Result<NewAdapter> new_adapter(const Model& model, const NewAdapterOptions& options) {
  TRY(const auto modules, find_modules(model, options.parts));
  NewAdapter made{.config = config_of(options, modules), .tensors = {}};
  const std::string prefix = "base_model.model." + model.family().prefixes.front();
  for (const auto& [name, module] : modules) {
    const std::string begin = prefix + factor_module(name, module);
    const auto number = static_cast<uint32_t>(made.tensors.size());
    const int64_t a_rows = int64_t{module.experts} * options.rank;
    made.tensors.push_back(
        {.name = begin + ".lora_A.weight",
         .shape = {a_rows, module.columns},
         .numbers = drawn(static_cast<size_t>(a_rows) * module.columns, module.columns, options.seed, number)});
    made.tensors.push_back({.name = begin + ".lora_B.weight",
                            .shape = {module.rows, a_rows},
                            .numbers = std::vector<float>(static_cast<size_t>(a_rows) * module.rows)});
  }
  return made;
}

Status write_adapter(const std::string& folder, const Json& config, const std::vector<StoredFactor>& tensors) {
  TRY_STATUS(make_folders(folder));
  std::vector<SavedTensor> saved;
  saved.reserve(tensors.size());
  for (const StoredFactor& one : tensors) saved.push_back({one.name, one.shape, one.numbers});
  TRY_STATUS(write_safetensors(join_path(folder, "adapter_model.safetensors"), saved, {{"format", "pt"}}));
  return write_file(join_path(folder, "adapter_config.json"), write_json(config, {.indent = 2}) + "\n");
}

}  // namespace sluice

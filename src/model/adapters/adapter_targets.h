// The weights of a model that a factor's name may mean.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/model.h"
#include "model/weight_table.h"

namespace sluice {

// Weights of the text model: the embedding table, and the head where it is a weight of its own.
inline constexpr const char* kTableWeight = "embed_tokens";
inline constexpr const char* kHeadWeight = "lm_head";

// A weight, or one expert of it, that a stored matrix contains.
struct AdapterTarget {
  const WeightRow* row = nullptr;
  const SourceName* source = nullptr;
  bool one_expert = false;  // the matrix is that of `expert` alone
  uint32_t expert = 0;
};

class AdapterTargets {
 public:
  // The names of `dialect`, whatever the dialect of the model's own files is. The model outlives it.
  AdapterTargets(const Model& model, Dialect dialect);
  AdapterTargets(const AdapterTargets&) = delete;
  AdapterTargets& operator=(const AdapterTargets&) = delete;

  // Of a tensor's name in the dialect: "model.layers.3.self_attn.q_proj.weight". Empty: no weight of the text model.
  std::vector<AdapterTarget> find(const std::string& name) const;
  // Of the tensors that lie directly in a module without a name of ".weight": fused experts.
  std::vector<std::string> parameters_of(const std::string& module) const;
  // Whether a tensor's name is that of a tower's.
  bool in_tower(const std::string& name) const;

 private:
  std::string without_prefix(const std::string& name) const;
  void add(const std::string& name, const WeightRow& row, const SourceName& source);

  const WeightTable* table_;
  const std::vector<std::string>* prefixes_;
  Dialect dialect_;
  std::unordered_map<std::string, std::vector<AdapterTarget>> by_name_;
  SourceName head_name_;  // of a head that is the embedding table
};

}  // namespace sluice

// A LoRA adapter that nobody has trained yet, as the PEFT library begins one: A drawn, B zeros, so that it changes
// nothing. Names, shapes and configuration are PEFT's for the Hugging Face form of the model, whatever files it lies
// in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/adapters/adapter.h"
#include "model/model.h"

namespace sluice {

// Which products an adapter acts on.
struct AdapterParts {
  bool attention = false;  // of queries, keys, values and results, also of latents
  bool mlp = false;        // dense and shared ones, and Gemma's per-layer inputs
  bool experts = false;
  bool delta_net = false;
};

struct NewAdapterOptions {
  uint32_t rank = 16;
  double alpha = 32;
  AdapterParts parts = {.attention = true, .mlp = true, .experts = true, .delta_net = true};
  uint64_t seed = 0;
  std::string base_model = {};  // as the configuration names it
};

struct NewAdapter {
  Json config;  // adapter_config.json
  std::vector<StoredFactor> tensors;
};

// Fails with one sentence when the model has no such products.
Result<NewAdapter> new_adapter(const Model& model, const NewAdapterOptions& options);

// Writes an adapter's folder; the files appear when they are complete.
Status write_adapter(const std::string& folder, const Json& config, const std::vector<StoredFactor>& tensors);

}  // namespace sluice

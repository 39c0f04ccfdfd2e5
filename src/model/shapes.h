// The shapes of real models by name. A shape is a configuration from which a synthetic model of the same size is made
// (synthetic.h).
//
//   "gemma4-e2b", "qwen3.5-397b-a17b:4" (the first four layers), "deepseek-v3:4:1:32" (of them one dense, 32 experts)
//
// Source: the config.json files of these models. Fields that they leave to transformers' defaults are left out here
// too.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

struct ModelShape {
  const char* name = "";           // "gemma4-e2b"
  const char* family = "";         // config.json's fields that all of its family share
  const char* own = "";            // its other fields
  uint32_t full_every = 0;         // writes layer_types with every so many-th layer full; 0: the config has it already
  const char* tokenizer = "";      // tokenizer.ggml.model and
  const char* pre_tokenizer = "";  // tokenizer.ggml.pre of its files
  const char* towers = "{}";       // config.json's fields about its towers, without "out_hidden_size"
};

std::span<const ModelShape> all_shapes();

// A shape, whole or cut down.
struct ShapeConfig {
  std::string name;  // as asked for
  const ModelShape* shape = nullptr;
  Json config;  // config.json, without towers
};
// The configuration with towers; an error where the shape knows none.
Result<Json> config_with_towers(const ShapeConfig& shape);

// NAME[:layers], or NAME[:layers[:dense[:experts]]] for families whose first layers are dense. An error lists the known
// names.
Result<ShapeConfig> find_shape(std::string_view text);

}  // namespace sluice

// The shapes of real models by name. A shape is the configuration of a real model, from which a synthetic model of the
// same size is made (synthetic.h).
//
//   "gemma4-e2b"
//   "qwen3.5-397b-a17b:4"    its first four layers
//   "deepseek-v3:4:1:32"     four layers, one of them dense, with 32 experts
//
// Source: the config.json files of these models. Fields that those files leave to transformers' defaults are missing
// here, too.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

struct ModelShape {
  const char* name = "";           // "gemma4-e2b"
  const char* family = "";         // the fields of config.json that are the same in the whole family
  const char* own = "";            // the other fields of config.json
  uint32_t full_every = 0;         // makes layer_types with one full layer in so many; 0: the fields have layer_types
  const char* tokenizer = "";      // tokenizer.ggml.model of the model's GGUF files
  const char* pre_tokenizer = "";  // tokenizer.ggml.pre of the same
  const char* towers = "{}";       // the fields of config.json about towers, without "out_hidden_size"
};

std::span<const ModelShape> all_shapes();

// A shape, complete or with fewer layers and experts.
struct ShapeConfig {
  std::string name;  // as asked for
  const ModelShape* shape = nullptr;
  Json config;  // config.json, without towers
};
// The configuration with towers. Fails when the shape has none.
Result<Json> config_with_towers(const ShapeConfig& shape);

// `text` is NAME[:layers], or NAME[:layers[:dense[:experts]]] for families whose first layers are dense. The error
// about an unknown name lists the known names.
Result<ShapeConfig> find_shape(std::string_view text);

}  // namespace sluice

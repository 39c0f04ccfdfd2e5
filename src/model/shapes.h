// Shapes of real models by name: their configurations, from which a synthetic model of the same size is made
// (synthetic.h).
//
//   "gemma4-e2b", "qwen3.5-397b-a17b:4" (the first four layers), "deepseek-v3:4:1:32" (of them one dense, 32 experts)
//
// Source: the config.json files of the models named; what they leave to transformers' defaults is left out here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

struct ModelShape {
  const char* name = "";       // "gemma4-e2b"
  const char* family = "";     // config.json's fields that all of its family share
  const char* own = "";        // and the others
  uint32_t full_every = 0;     // writes layer_types: every so many-th layer is full; 0: the config says it otherwise
  const char* tokenizer = "";  // tokenizer.ggml.model and
  const char* pre_tokenizer = "";  // tokenizer.ggml.pre of its files
};

std::span<const ModelShape> all_shapes();

// A shape as asked for, cut down or whole.
struct ShapeConfig {
  std::string name;  // as asked for
  const ModelShape* shape = nullptr;
  Json config;  // config.json
};
// NAME[:layers], or NAME[:layers[:dense[:experts]]] where the first layers are dense. An error names what is known.
Result<ShapeConfig> find_shape(std::string_view text);

}  // namespace sluice

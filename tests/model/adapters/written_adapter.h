// Adapters with pseudo-random factors, written as PEFT saves them, or as llama.cpp's GGUF files have them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "tests/model/tiny_model.h"

namespace sluice::tests {

struct AdaptedModule {
  std::string name;  // without "base_model.model.": "model.language_model.layers.0.self_attn.q_proj"
  int64_t columns = 0, rows = 0;
};

inline std::vector<TinyTensor> peft_factors(const std::vector<AdaptedModule>& modules, int64_t rank) {
  std::vector<TinyTensor> tensors;
  for (const AdaptedModule& module : modules) {
    tensors.push_back({"base_model.model." + module.name + ".lora_A.weight", {rank, module.columns}});
    tensors.push_back({"base_model.model." + module.name + ".lora_B.weight", {module.rows, rank}});
  }
  return tensors;
}

inline Json peft_config(double alpha) { return Json::Object{{"peft_type", "LORA"}, {"lora_alpha", alpha}}; }

// Adapters of other seeds have other factors.
inline void write_adapter(const std::string& folder, const Json& config, const std::vector<TinyTensor>& factors,
                          uint64_t seed = 42) {
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(write_file(join_path(folder, "adapter_config.json"), write_json(config)).ok());
  EXPECT_TRUE(write_file(join_path(folder, "adapter_model.safetensors"), tiny_safetensors(factors, seed)).ok());
}

}  // namespace sluice::tests

// adapter_config.json, as the PEFT library writes it (peft 0.21: LoraConfig). Only plain LoRA is read; everything else
// that changes what the factors mean is refused by its name.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/adapters/name_pattern.h"

namespace sluice {

class PeftConfig {
 public:
  // Every error begins with `where`, the file's path.
  static Result<PeftConfig> read(const Json& json, const std::string& where);

  // What the product of a module's factors is multiplied by: alpha / rank, or with rsLoRA alpha / sqrt(rank)
  // (Kalajdzievski 2023, arXiv:2312.03732). Alpha is that of the first pattern that names the module.
  float scale(const std::string& module, uint32_t rank) const;

 private:
  double alpha_ = 0;
  bool root_ = false;  // rsLoRA
  std::vector<std::pair<NamePattern, double>> alphas_;
};

}  // namespace sluice

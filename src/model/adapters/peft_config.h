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
  // (Kalajdzievski 2023, arXiv:2312.03732). Alpha is that of the first pattern that names the module: all of its path,
  // or what stands behind a dot. A pattern names a parameter of fused experts by all of its path alone.
  float scale(const std::string& module, uint32_t rank) const { return scale(module, rank, /*is_parameter=*/false); }
  float scale_of_parameter(const std::string& parameter, uint32_t rank) const {
    return scale(parameter, rank, /*is_parameter=*/true);
  }

 private:
  struct Alpha {
    NamePattern end, whole;  // of a path: behind a dot, all of it
    double alpha = 0;
  };
  float scale(const std::string& name, uint32_t rank, bool is_parameter) const;

  double alpha_ = 0;
  bool root_ = false;  // rsLoRA
  std::vector<Alpha> alphas_;
};

}  // namespace sluice

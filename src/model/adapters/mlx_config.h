// adapter_config.json, as `mlx_lm.lora` writes it beside adapters.safetensors (mlx-lm: tuner/utils.py, tuner/lora.py):
// the options of the training, of which `fine_tune_type` and `lora_parameters` matter here.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

// Whether it is MLX's: PEFT's have neither of these options.
bool is_mlx_config(const Json& json);

// What the product of every pair of factors is multiplied by, whatever its rank. All but plain LoRA is refused by name.
// Every error begins with `where`, the file's path.
Result<float> mlx_scale(const Json& json, const std::string& where);

}  // namespace sluice

// model.safetensors.index.json: which file of a Hugging Face directory holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

// Tensor name -> name of a safetensors file, a plain name without folders. Every error begins with `where`.
Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text, const std::string& where);

}  // namespace sluice

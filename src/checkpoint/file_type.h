// The usual name for the format of a whole model: "q4_k_m". GGUF gives its number in general.file_type, as llama.cpp
// numbers it (include/llama.h). Most names stand for a mix: each tensor has a format of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace sluice {

inline constexpr std::string_view kFileTypeKey = "general.file_type";

// "q4_k_m" for 15; none for an unknown number.
std::optional<std::string_view> file_type_name(uint32_t id);
std::optional<uint32_t> file_type_by_name(std::string_view name);

// The file's own name for it: "q4_k_m", "mlx-4bit" or "mlx-mxfp4" (MLX directories), "gptq-4bit" (packed integers).
// Otherwise the format that most bytes of its tensors have; "" without tensors.
std::string format_label(const Checkpoint& checkpoint);

}  // namespace sluice

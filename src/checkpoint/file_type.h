// What people call the format of a whole model: "q4_k_m". GGUF says it in general.file_type, numbered by llama.cpp
// (include/llama.h); most names stand for a mixture of formats, one a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace sluice {

inline constexpr std::string_view kFileTypeKey = "general.file_type";

// "q4_k_m" of 15; nothing for numbers that stand for none.
std::optional<std::string_view> file_type_name(uint32_t id);
std::optional<uint32_t> file_type_by_name(std::string_view name);

// The file's own word for it ("q4_k_m", of an MLX directory "mlx-4bit", "mlx-mxfp4", of packed integers "gptq-4bit"),
// else the format that most bytes of its tensors have; "" without tensors.
std::string format_label(const Checkpoint& checkpoint);

}  // namespace sluice

// A GGUF file that holds a model's head for multi-token prediction (MTP) and nothing else of the model's layers. It
// lies beside the model's own file, and its name begins with "mtp-". Source: llama.cpp's convert_hf_to_gguf.py --mtp,
// which writes the head's layers under the numbers behind the model's last one ("blk.<layers>.nextn.eh_proj.weight"
// ...), all keys of the architecture with the head counted, and copies of the embedding and the output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/gguf_value.h"

namespace sluice {

// Whether a file's name is that of a draft head.
bool is_draft_file_name(std::string_view path);

struct DraftFileKeys {
  GgufMetadata joined{};     // the model's metadata, with the head counted
  uint32_t first_layer = 0;  // the head's layers have this number and those above
};
// Refuses the head of another model: every key of the architecture must agree.
Result<DraftFileKeys> join_draft_keys(const GgufMetadata& model, const std::string& model_path,
                                      const GgufMetadata& head, const std::string& head_path);

// Whether a tensor of the head's file belongs to the head. Copies of the model's own tensors do not.
bool is_draft_tensor(std::string_view name, uint32_t first_layer);

}  // namespace sluice

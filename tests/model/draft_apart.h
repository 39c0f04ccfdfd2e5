// A model and its head for multi-token prediction in two GGUF files, from an export of both with four layers.
#pragma once

#include <algorithm>
#include <string>
#include <variant>

#include "base/text.h"
#include "model/export.h"

namespace sluice {

// What llama.cpp's convert_hf_to_gguf.py writes with --no-mtp and with --mtp.
struct TwoFiles {
  GgufExport model, head;
};

inline std::string architecture_of(const GgufExport& whole) {
  const auto key = std::ranges::find(whole.keys, "general.architecture", [](const auto& k) { return k.name; });
  return std::get<std::string>(key->value);
}

inline TwoFiles head_apart(const GgufExport& whole) {
  const std::string prefix = architecture_of(whole) + ".", block = "blk.4.";
  TwoFiles files{whole, whole};
  std::erase_if(files.model.keys, [&](const auto& key) { return key.name == prefix + "nextn_predict_layers"; });
  for (auto& [name, value] : files.model.keys) {
    if (name == prefix + "block_count") value = 4u;
    if (!starts_with(name, prefix)) continue;
    if (auto* numbers = std::get_if<GgufArray<int32_t>>(&value); numbers && numbers->size() == 5) numbers->pop_back();
    if (auto* flags = std::get_if<GgufArray<bool>>(&value); flags && flags->size() == 5) flags->pop_back();
  }
  std::erase_if(files.model.tensors, [&](const ExportTensor& tensor) { return starts_with(tensor.name, block); });
  std::erase_if(files.head.tensors, [&](const ExportTensor& tensor) {
    return !starts_with(tensor.name, block) && starts_with(tensor.name, "blk.");
  });
  return files;
}

}  // namespace sluice

// An assistant of Gemma 4 as llama.cpp's convert_hf_to_gguf.py writes it.
#pragma once

#include <array>
#include <string>

#include "model/export.h"
#include "model/weight_table.h"

namespace sluice {

// `model`: with the assistant of tests/data/gemma4_assistant, whose sizes these are.
inline GgufExport assistant_gguf(const Model& model) {
  const std::string of = "gemma4-assistant.";
  GgufExport out;
  out.keys = {{"general.architecture", std::string("gemma4-assistant")},
              {of + "block_count", 4u},
              {of + "context_length", 131072u},
              {of + "embedding_length", 32u},
              {of + "embedding_length_out", 64u},
              {of + "nextn_predict_layers", 4u},
              {of + "feed_forward_length", 96u},
              {of + "attention.head_count", 4u},
              {of + "attention.head_count_kv", GgufArray<int32_t>{2, 2, 2, 1}},
              {of + "rope.freq_base", 1e6f},
              {of + "rope.freq_base_swa", 1e4f},
              {of + "attention.layer_norm_rms_epsilon", 1e-6f},
              {of + "attention.sliding_window", 32u},
              {of + "attention.shared_kv_layers", 4u},
              {of + "attention.sliding_window_pattern", GgufArray<bool>{true, true, true, false}},
              {of + "embedding_length_per_layer_input", 0u},
              {of + "attention.key_length", 64u},
              {of + "attention.value_length", 64u},
              {of + "attention.key_length_swa", 32u},
              {of + "attention.value_length_swa", 32u},
              {of + "rope.dimension_count", 64u},
              {of + "rope.dimension_count_swa", 32u}};
  for (const BoundWeight& weight : model.own_weights(ProgramKind::draft_head).all()) {
    const SourceName& name = weight.row.gguf.front();
    out.tensors.push_back({.name = name.name,
                           .shape = stored_shape(weight.row.shape, name),
                           .format = weight.tensor.format,
                           .source = weight.tensor});
  }
  // A quarter of the pairs turn.
  static const std::array<float, 32> factors = [] {
    std::array<float, 32> all{};
    all.fill(1e30f);
    std::fill_n(all.begin(), 8, 1.0f);
    return all;
  }();
  TensorSource source;
  source.bytes = reinterpret_cast<const std::byte*>(factors.data());
  source.shape = vector_of(32);
  source.format = Format::f32;
  source.row_stride = sizeof factors;
  out.tensors.push_back({.name = "rope_freqs.weight", .shape = {32}, .format = Format::f32, .source = source});
  return out;
}

}  // namespace sluice

// Writes an adapter as llama.cpp's GGUF adapter: its names are those that the model's own GGUF file has, or that of
// convert. Source: llama.cpp's convert_lora_to_gguf.py and src/llama-adapter.cpp, layout only.
//
//   "blk.3.attn_q.weight.lora_a"    f32 [experts, rank, columns]
//   "blk.3.attn_q.weight.lora_b"    f32 [experts, rows, rank]
//
// Heads are put into GGUF's order. Weights that a GGUF file keeps in one tensor, such as gate and up projections of
// experts, have one pair of factors: their A if it is the same, else one A below the other. The file has one alpha;
// where a weight's scale is not alpha / rank, its B makes up for it.
#pragma once

#include <string>

#include "base/result.h"
#include "model/adapters/adapter.h"
#include "model/model.h"

namespace sluice {

// Fails with one sentence when the form cannot have a factor: of embeddings, of a head that is the embedding table, of
// the transposed keys of latent attention, of experts in a tensor each.
Status check_gguf_adapter(const Model& model, const Adapter& adapter);

// check_gguf_adapter() holds. The file appears when it is complete.
Status write_gguf_adapter(const std::string& path, const Model& model, const Adapter& adapter);

}  // namespace sluice

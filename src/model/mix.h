// A mix says which format each tensor of a file gets when the whole is to be "q4_k_m".
//
// f32, f16, bf16 and q8_0 give every matrix one format, as llama.cpp's converter does. The other mixes are those of its
// quantiser (src/llama-quant.cpp). Most matrices get the mix's own format. Matrices that matter most (attention values,
// down projections, the head) get a finer one in some layers. A row that is no whole number of blocks falls back to a
// format with smaller blocks. Formats equal those of the quantiser without an importance matrix, for the families known
// here (its exceptions for Falcon and for one size of Llama are left out).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/format.h"

namespace sluice {

// Whether a rule holds for the i-th of n tensors of its kind.
enum class MixWhen : uint8_t { never, always, first_2, first_4, first_16th, first_8th, spread, grouped };

struct MixRule {
  MixWhen when = MixWhen::never;
  Format then{};
  Format otherwise{};  // f32: the mix's own
};

struct Mix {
  const char* name = "";  // one of llama.cpp's file types; checkpoint/file_type.h gives its number
  Format own{};
  bool uniform = false;  // every matrix in `own`
  MixRule values = {};   // v, fused qkv and MLA's kv_b projections
  MixRule down = {};     // ffn_down
  MixRule attention_output = {};
  bool eight_experts = false;    // attention_output is q5_k in models of eight experts
  Format stacked = Format::f32;  // of stacked matrices; f32: as the others
};

// The properties of a tensor and of the model that a mix looks at.
struct MixTensor {
  std::string name;            // in GGUF: "blk.0.attn_v.weight"
  std::vector<int64_t> shape;  // outermost first
  Format stored{};             // the format that tensors keep if they are never quantised
};
struct MixFacts {
  uint32_t layers = 0;
  uint32_t experts = 0;
  uint32_t heads = 0, kv_heads = 0;  // of the first layer
};

std::span<const Mix> all_mixes();
const Mix* find_mix(std::string_view name);    // null for an unknown name
std::string mix_names(const char* separator);  // of all

// The format of each tensor. Vectors, norms, routers and tensors that are no `.weight` are f32 in every mix.
std::vector<Format> mix_formats(const Mix& mix, const std::vector<MixTensor>& tensors, const MixFacts& facts);

// A format chosen by name, for the matrices whose GGUF name fits `pattern`. There * stands for any characters, ? for
// one.
struct FormatRule {
  std::string pattern;
  Format format{};
};
// Gives each matrix the format of the first rule that fits it, with the same fallbacks as a mix. Fails when a rule fits
// no matrix.
Status apply_rules(const std::vector<FormatRule>& rules, const std::vector<MixTensor>& tensors,
                   std::vector<Format>& formats);

// `format`, or its fallback when rows of `columns` elements are no whole number of its blocks.
Format format_of_rows(Format format, int64_t columns);

}  // namespace sluice

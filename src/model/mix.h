// A mix chooses the format of each tensor when a file is quantised, for example to "q4_k_m".
//
// The mixes f32, f16, bf16 and q8_0 give every matrix one format, as llama.cpp's converter does. The other mixes are
// those of llama.cpp's quantiser (src/llama-quant.cpp). There most matrices get the mix's own format, and the matrices
// that matter most (attention values, down projections, the head) get a finer format in some layers. A matrix whose
// rows are not a whole number of blocks falls back to a format with smaller blocks. The chosen formats equal those of
// the quantiser without an importance matrix; its exceptions for Falcon and for one size of Llama are left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/format.h"

namespace sluice {

// For which of the n tensors of its kind a rule holds.
enum class MixWhen : uint8_t { never, always, first_2, first_4, first_16th, first_8th, spread, grouped };

struct MixRule {
  MixWhen when = MixWhen::never;
  Format then{};
  Format otherwise{};  // the format of the others; f32: the mix's own
};

struct Mix {
  const char* name = "";  // one of llama.cpp's file types; checkpoint/file_type.h gives its number
  Format own{};
  bool uniform = false;  // every matrix has the format `own`
  MixRule values = {};   // v_proj, fused qkv and MLA's kv_b
  MixRule down = {};     // ffn_down
  MixRule attention_output = {};
  bool eight_experts = false;    // attention_output is q5_k in models with eight experts
  Format stacked = Format::f32;  // for a tensor of all experts; f32: like other matrices
};

// The properties of a tensor and of its model by which a mix chooses.
struct MixTensor {
  std::string name;            // its GGUF name: "blk.0.attn_v.weight"
  std::vector<int64_t> shape;  // outermost first
  Format stored{};             // the format in the source, which a tensor keeps if it is never quantised
};
struct MixFacts {
  uint32_t layers = 0;
  uint32_t experts = 0;
  uint32_t heads = 0, kv_heads = 0;  // of the first layer
};

std::span<const Mix> all_mixes();
const Mix* find_mix(std::string_view name);    // null for an unknown name
std::string mix_names(const char* separator);  // of all mixes

// The format of each tensor. Vectors, norms, routers and tensors whose name does not end in ".weight" are f32 in every
// mix.
std::vector<Format> mix_formats(const Mix& mix, const std::vector<MixTensor>& tensors, const MixFacts& facts);

// A rule of the user: the matrices whose GGUF name matches `pattern` get this format. In the pattern, * stands for any
// characters and ? for one character.
struct FormatRule {
  std::string pattern;
  Format format{};
};
// Gives each matrix the format of the first rule that matches it, with the same fallbacks as a mix. Fails when a rule
// matches no matrix.
Status apply_rules(const std::vector<FormatRule>& rules, const std::vector<MixTensor>& tensors,
                   std::vector<Format>& formats);

// `format`, or its fallback if rows of `columns` elements are not a whole number of its blocks.
Format format_of_rows(Format format, int64_t columns);

}  // namespace sluice

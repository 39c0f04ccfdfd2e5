// Mixes: which format each tensor of a file gets when the whole is to be "q4_k_m".
//
// f32, f16, bf16 and q8_0 put every matrix into one format, as llama.cpp's converter does. The others are those of its
// quantiser (src/llama-quant.cpp): most matrices get the mix's own format, those that answers depend on most - values
// of attention, down projections, the head - a finer one in some layers. A row that is no whole number of blocks falls
// back to a format of smaller ones. Formats come out as the quantiser gives them without an importance matrix, for the
// families known here (its exceptions for Falcon and for one size of Llama are left out).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/format.h"

namespace sluice {

// When a rule holds for the i-th of n tensors of its kind.
enum class MixWhen : uint8_t { never, always, first_2, first_4, first_16th, first_8th, spread, grouped };

struct MixRule {
  MixWhen when = MixWhen::never;
  Format then{};
  Format otherwise{};  // f32: the mix's own
};

struct Mix {
  const char* name = "";  // of llama.cpp's file types, by which checkpoint/file_type.h numbers it
  Format own{};
  bool uniform = false;  // every matrix in `own`
  MixRule values = {};   // v, fused qkv and MLA's kv_b projections
  MixRule down = {};     // ffn_down
  MixRule attention_output = {};
  bool eight_experts = false;    // attention_output is q5_k in models of eight experts
  Format stacked = Format::f32;  // of stacked matrices; f32: as the others
};

// What a mix asks of a tensor and of the model.
struct MixTensor {
  std::string name;            // in GGUF: "blk.0.attn_v.weight"
  std::vector<int64_t> shape;  // outermost first
  Format stored{};             // what tensors that are never quantised stay in
};
struct MixFacts {
  uint32_t layers = 0;
  uint32_t experts = 0;
  uint32_t heads = 0, kv_heads = 0;  // of the first layer
};

std::span<const Mix> all_mixes();
const Mix* find_mix(std::string_view name);    // null: none of that name
std::string mix_names(const char* separator);  // of all

// The format of each tensor. Vectors, norms, routers and what is no `.weight` are f32 in every mix.
std::vector<Format> mix_formats(const Mix& mix, const std::vector<MixTensor>& tensors, const MixFacts& facts);

// A format asked for by name: of the matrices whose name in GGUF fits `pattern`, in which * stands for any characters
// and ? for one.
struct FormatRule {
  std::string pattern;
  Format format{};
};
// Gives each matrix the format of the first rule that it fits, with the same stand-ins as a mix. Fails when a rule fits
// none.
Status apply_rules(const std::vector<FormatRule>& rules, const std::vector<MixTensor>& tensors,
                   std::vector<Format>& formats);

// `format`, or what stands in for it in rows of `columns` elements that are no whole number of its blocks.
Format format_of_rows(Format format, int64_t columns);

}  // namespace sluice

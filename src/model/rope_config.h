// The configuration of rotary embeddings, for families that read it alike: where config.json keeps it, and how it and
// GGUF files ask for YaRN (rope.h).
//
// Hugging Face: rope_parameters of transformers 5, or rope_theta and rope_scaling of older files. GGUF: rope.scaling.*,
// as llama.cpp reads them: no type means linear, and a factor of 1 stretches nothing. An unknown or other method is
// refused with one sentence.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "model/config.h"
#include "model/rope.h"

namespace sluice {

// Paths below the text config.
struct RopeNames {
  const char *parameters, *theta, *rotated_share, *type, *old_type, *factor, *original, *beta_fast, *beta_slow,
      *attention_factor, *mscale, *mscale_all_dim, *truncate;
};
const RopeNames& rope_names(const ConfigReader& reader);

// The method's name; "" when there is none. Fails when it is no text.
Result<std::string> rope_scaling_type(const ConfigReader& reader, const RopeNames& names);

// GGUF: whether rope.scaling.type asks for YaRN. Fails where it asks for something else.
Result<bool> gguf_asks_for_yarn(const ConfigReader& reader);

// Fills `yarn` if the configuration asks for it, and raises `context` to the length that it then reaches. Returns the
// factor for cos and sin.
Result<float> read_yarn(const ConfigReader& reader, const RopeNames& names, float theta, uint32_t& context, Yarn& yarn);

// The same as GGUF keys; none if nothing is stretched.
std::vector<GgufMetadata::Entry> yarn_keys(Yarn yarn, float magnitude, const std::string& architecture);

// For a reader: "YaRN, 4 times 262144 positions".
std::string yarn_text(const Yarn& yarn);

}  // namespace sluice

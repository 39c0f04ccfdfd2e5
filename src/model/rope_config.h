// The configuration of rotary embeddings: where config.json keeps it, and how config.json and GGUF keys ask for YaRN
// (rope.h). All families that have YaRN share it.
//
// Hugging Face: rope_parameters of transformers 5, or rope_theta and rope_scaling of older files. GGUF: rope.scaling.*
// as llama.cpp reads it: no type means linear, and a factor of 1 stretches nothing. A method other than YaRN is refused
// with one sentence.
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

// The method's name; "" if there is none. Fails when the field is not a string.
Result<std::string> rope_scaling_type(const ConfigReader& reader, const RopeNames& names);

// GGUF: whether rope.scaling.type asks for YaRN. Fails when it asks for another method.
Result<bool> gguf_asks_for_yarn(const ConfigReader& reader);

// Fills `yarn` if the configuration asks for YaRN, and raises `context` to the stretched length. Returns the factor for
// cos and sin.
Result<float> read_yarn(const ConfigReader& reader, const RopeNames& names, float theta, uint32_t& context, Yarn& yarn);

// YaRN's GGUF keys; none if yarn.factor is 1.
std::vector<GgufMetadata::Entry> yarn_keys(Yarn yarn, float magnitude, const std::string& architecture);

// A text to show: "YaRN, 4 times 262144 positions".
std::string yarn_text(const Yarn& yarn);

}  // namespace sluice

// "quantization" of an MLX directory's config.json: how the elements of each matrix are packed.
//
//   {"group_size": 64, "bits": 4, "mode": "affine",        for every module with scales beside its weight
//    "model.layers.0.mlp.gate": {"bits": 8},               one module; missing members are the mode's defaults
//    "model.layers.0.mlp.up_proj": false}                  not quantised
//
// Entries for modules that the model lacks are ignored, because files keep entries of parts that were removed. An entry
// may have another prefix than the tensors ("model." for "language_model.model."), because tools move modules without
// changing entries. An entry with the exact path wins. Source: mlx (mlx/ops.cpp) and mlx-lm (utils.py).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "format/format.h"

namespace sluice {

//   mode     bits              group         elements    scales    offsets
//   affine   2, 3, 4, 5, 6, 8  32, 64, 128   u2 ... u8   floats    floats, "biases"
//   mxfp4    4                 32            f4          f8_e8m0   none
//   mxfp8    8                 32            f8_e4m3     f8_e8m0   none
//   nvfp4    4                 16            f4          f8_e4m3   none
struct MlxPacking {
  const char* mode = "affine";
  uint32_t bits = 4, group = 64;
  Format elements = Format::u4;
  std::optional<Format> scales{};  // the format of scales that files keep as u8; none: the tensor's f32, f16 or bf16
  bool offsets = true;
  bool operator==(const MlxPacking&) const = default;
};

// Whether the mode affine packs elements in that format.
bool is_affine_format(Format format);

class MlxQuantization {
 public:
  // None if `config` has no "quantization". Every error begins with `where`. `prefixes`: prefixes of a module's name;
  // the first one that fits counts.
  static Result<std::optional<MlxQuantization>> read(const Json& config, const std::string& where,
                                                     std::span<const std::string> prefixes = {});

  const MlxPacking& usual() const { return usual_; }
  // The packing of the module with that path ("model.layers.0.mlp.gate"); null if it is not quantised. Fails if entries
  // with other spellings disagree.
  Result<const MlxPacking*> of(const std::string& path) const;

 private:
  struct Other {
    std::optional<MlxPacking> packing;
    std::string path;
    std::string rival{};  // the path of another entry for the same module with another value; "": none
  };

  std::string without_prefix(const std::string& path) const;

  std::string where_;
  std::vector<std::string> prefixes_;
  MlxPacking usual_;
  std::unordered_map<std::string, Other> others_;        // by path
  std::unordered_map<std::string, Other> any_spelling_;  // by path without prefix
};

}  // namespace sluice

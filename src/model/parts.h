// Weights that a checkpoint keeps in several tensors: 8- and 4-bit floats or MLX's integers and, beside them, their
// scales.
//
//   elements                                   beside them                       a scale's block
//   X f8_e4m3 (DeepSeek, Qwen; fine-grained)   X_scale_inv                       weight_block_size of config.json
//   X f8 (compressed-tensors, modelopt)        X_scale                           the tensor, a row, or a block
//   X_packed u8: mxfp4                         X_scale u8                        32 of a row
//   X u8 or X_packed u8: nvfp4                 X_scale f8_e4m3                   16 of a row
//                                              X_scale_2, or 1 / X_global_scale  the tensor
//   X_packed i32: q + 8 (compressed-tensors)   X_scale                           a row, or a group of it
//   x.weight u32 (MLX)                         x.scales                          a group of a row, config.json's
//                                              x.biases: + instead of *          (checkpoint/mlx_quantization.h)
//   blk.0.x.weight nvfp4 (GGUF)                blk.0.x.scale                     the tensor, or an expert's matrix
//
// X is a name such as "layers.0.mlp.up_proj.weight". Which it is follows from the tensors themselves. "scale_inv" is
// multiplied by, despite its name. Scales of activations (input_scale ...) are recognised and not used: activations
// are not rounded to 8 bits here. Source: the repositories of transformers, compressed-tensors, modelopt, mlx and
// llama.cpp.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/mlx_quantization.h"
#include "graph/weights.h"

namespace sluice {

class SourceNames;

// How the elements of a tensor are to be read.
struct ElementView {
  Format format{};
  std::vector<int64_t> shape;  // packed elements counted one by one
};

struct FoundParts {
  std::vector<WeightPart> parts;
  std::vector<const StoredTensor*> tensors;  // beside the elements, used or not
};

class PartFinder {
 public:
  // `claimed`: names that are weights of their own and so no parts; names and checkpoint outlive the finder.
  static Result<PartFinder> open(const Checkpoint& checkpoint, const SourceNames& names,
                                 std::unordered_set<std::string> claimed);

  // `name` is the table's word for the weight, under which `elements` was found.
  Result<ElementView> view(const std::string& name, const StoredTensor& elements) const;
  // For a weight of that shape, of which the whole tensor consists.
  Result<FoundParts> find(const std::string& name, const StoredTensor& elements, const WeightShape& shape) const;

 private:
  PartFinder(const Checkpoint& checkpoint, const SourceNames& names) : checkpoint_(&checkpoint), names_(&names) {}
  const StoredTensor* beside(const std::string& name) const;
  bool is_packed_integers(const std::string& name, const StoredTensor& elements) const;
  Status add_centre(const std::string& name, const StoredTensor& elements, const WeightShape& shape,
                    FoundParts& found) const;
  Status add(const StoredTensor& side, PartRole role, const WeightShape& shape, FoundParts& found) const;
  Status fit(const StoredTensor& side, const WeightShape& shape, WeightPart& part) const;
  Result<WeightPart> part_of(const StoredTensor& side, PartRole role, std::optional<Format> of_bytes) const;

  // MLX, where `stem`.scales lies beside the elements.
  Result<const MlxPacking*> mlx_packing(const std::string& stem, const StoredTensor& elements) const;  // null: none
  Result<FoundParts> find_mlx(const std::string& stem, const StoredTensor& elements, const MlxPacking& packing,
                              const WeightShape& shape) const;
  Status add_mlx(const StoredTensor& side, const StoredTensor& elements, PartRole role, const MlxPacking& packing,
                 const WeightShape& shape, FoundParts& found) const;

  const Checkpoint* checkpoint_;
  const SourceNames* names_;
  std::unordered_set<std::string> claimed_;
  std::optional<MlxQuantization> mlx_;
  uint32_t block_rows_ = 128, block_columns_ = 128;  // where config.json does not say
};

}  // namespace sluice

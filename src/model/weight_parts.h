// Quantised weights that a checkpoint stores as several tensors: elements of few bits (floats or integers), and their
// scales and zero points in other tensors.
//
// The tensors themselves tell which scheme they follow; the table above WeightPartFinder lists all schemes. A weight is
// element * scale, despite the name "scale_inv". Integers are (q - zero point) * scale. Scales of activations
// (input_scale ...) are recognised but not used, because activations are not rounded to 8 bits here. Source: the
// repositories of transformers, compressed-tensors, modelopt, GPTQModel, AutoAWQ, mlx and llama.cpp.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/mlx_quantization.h"
#include "checkpoint/quantization_config.h"
#include "graph/weights.h"

namespace sluice {

class SourceNames;

// How the elements of a tensor are to be read.
struct ElementView {
  Format format{};
  std::vector<int64_t> shape;  // packed elements counted one by one
};

struct FoundWeightParts {
  std::optional<NumberGrid> grid;  // of the elements
  std::vector<WeightPart> parts;
  std::vector<const StoredTensor*> tensors;  // beside the elements, used or not
};

//   elements                                   beside them                       a scale's block
//   X f8_e4m3 (DeepSeek, Qwen; fine-grained)   X_scale_inv                       weight_block_size of config.json
//   X f8 (compressed-tensors, modelopt)        X_scale                           the tensor, a row, or a block
//   X_packed u8: mxfp4                         X_scale u8                        32 of a row
//   X u8 or X_packed u8: nvfp4                 X_scale f8_e4m3                   16 of a row
//                                              X_scale_2, or 1 / X_global_scale  the tensor
//   X i8, or X_packed i32: q + 8 or q + 128    X_scale                           the tensor, a row, or a group of it
//     (compressed-tensors)                     X_zero_point i8, or packed i32    as the scale's
//                                              X_g_idx: the group of a column
//   x.qweight i32 (GPTQ, AWQ)                  x.scales, x.qzeros, x.g_idx       a group of a row
//                                                                                (checkpoint/quantization_config.h)
//   x.weight u32 (MLX)                         x.scales                          a group of a row, config.json's
//                                              x.biases: + instead of *          (checkpoint/mlx_quantization.h)
//   blk.0.x.weight nvfp4 (GGUF)                blk.0.x.scale                     the tensor, or an expert's matrix
//
// X is a name such as "layers.0.mlp.up_proj.weight".
class WeightPartFinder {
 public:
  // `claimed` are the names of weights, which cannot be parts of other weights. The names and the checkpoint must
  // outlive the finder.
  static Result<WeightPartFinder> open(const Checkpoint& checkpoint, const SourceNames& names,
                                       std::unordered_set<std::string> claimed);

  // `name` is the weight's name in the weight table, under which `elements` was found. `shape` is the shape that the
  // whole tensor should have.
  Result<ElementView> view(const std::string& name, const StoredTensor& elements, const WeightShape& shape) const;
  // The scales and zero points of a weight whose tensor has the view above.
  Result<FoundWeightParts> find(const std::string& name, const StoredTensor& elements, const WeightShape& shape) const;

 private:
  WeightPartFinder(const Checkpoint& checkpoint, const SourceNames& names) : checkpoint_(&checkpoint), names_(&names) {}
  const StoredTensor* beside(const std::string& name) const;
  std::string described(const StoredTensor& tensor) const;  // "model.safetensors: x.weight"

  // Packed integers, in weight_parts_integers.cpp.
  std::optional<uint32_t> packed_bits(const std::string& name, const StoredTensor& elements, uint32_t columns) const;
  bool is_integers(const std::string& name, const StoredTensor& elements) const;
  Status check_columns(const StoredTensor& elements, const WeightShape& shape) const;
  Status add_zero_point(const std::string& name, const StoredTensor& elements, const WeightShape& shape,
                        FoundWeightParts& found) const;
  Status add_packed_zero_point(const StoredTensor& side, uint32_t bits, const WeightShape& shape,
                               FoundWeightParts& found) const;
  Status add_groups(const StoredTensor& side, const WeightShape& shape, FoundWeightParts& found) const;
  Result<ElementView> words_view(const StoredTensor& elements, const WeightShape& shape) const;
  Result<FoundWeightParts> find_words(const std::string& stem, const StoredTensor& elements,
                                      const WeightShape& shape) const;
  Status add_word_zeros(const std::string& stem, const StoredTensor& elements, uint32_t bits, int64_t groups,
                        const WeightShape& shape, FoundWeightParts& found) const;

  Status add(const StoredTensor& side, PartRole role, const WeightShape& shape, FoundWeightParts& found) const;
  Status fit(const StoredTensor& side, const WeightShape& shape, WeightPart& part) const;
  Result<WeightPart> part_of(const StoredTensor& side, PartRole role, std::optional<Format> of_bytes) const;

  // MLX: a tensor `stem`.scales stands beside the elements.
  Result<const MlxPacking*> mlx_packing(const std::string& stem, const StoredTensor& elements) const;  // null: none
  Result<FoundWeightParts> find_mlx(const std::string& stem, const StoredTensor& elements, const MlxPacking& packing,
                                    const WeightShape& shape) const;
  Status add_mlx(const StoredTensor& side, const StoredTensor& elements, PartRole role, const MlxPacking& packing,
                 const WeightShape& shape, FoundWeightParts& found) const;

  const Checkpoint* checkpoint_;
  const SourceNames* names_;
  std::unordered_set<std::string> claimed_;
  std::optional<MlxQuantization> mlx_;
  QuantizationConfig quantization_;
  uint32_t block_rows_ = 128, block_columns_ = 128;  // unless config.json says otherwise
};

}  // namespace sluice

// A synthetic model has the shape of a real one (shapes.h), tensor by tensor in the formats of a converted file, but
// made-up weights. It is for measuring speed and memory, where only sizes and routing count.
//
// Matrices hold normal numbers of variance 1 / columns, so that activations keep their size. Norms and scales hold
// ones, biases hold zeros. All matrices of one format and width are pieces of one pattern of 1021 blocks of 256
// elements. The pattern is encoded once, so making a gigabyte takes no longer than copying it.
//
// Routing: the length of an expert's row in the router decides how often that expert is chosen. Half of all normal
// logits are negative, so no expert is chosen for more than kMostChosen of the tokens.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_value.h"
#include "model/export.h"
#include "model/mix.h"
#include "model/shapes.h"

namespace sluice {

// How often experts are chosen. The frequency of the expert of rank r is proportional to r^-exponent, or to the
// recorded use of that rank. Ranks are spread over the experts.
struct Routing {
  double exponent = 0;                // 0: all experts alike
  std::vector<double> recorded = {};  // by rank, most used first, each above 0; empty: use the exponent
};
inline constexpr double kMostChosen = 0.4;

// `text` is "zipf:1.0" or "uniform".
Result<Routing> parse_routing(const std::string& text);
// The frequency of each rank, if a token uses `used` of all experts. `experts` must be the number of recorded ranks, if
// any were recorded.
std::vector<double> chosen_shares(const Routing& routing, uint32_t experts, uint32_t used);

class SyntheticModel {
 public:
  // Fails with `invalid` when the number of recorded ranks is not the shape's number of experts.
  static Result<SyntheticModel> make(const ShapeConfig& shape, const Mix& mix, const Routing& routing);
  // The shape's towers alone, as an mmproj file has them (export.h).
  static Result<SyntheticModel> make_towers(const ShapeConfig& shape);

  struct Tensor {
    std::string name;
    Format format{};
    std::vector<int64_t> shape;  // outermost first
    uint64_t bytes = 0;
  };
  const std::string& name() const { return name_; }
  const ModelShape& shape() const { return *shape_; }
  const std::vector<GgufMetadata::Entry>& keys() const { return keys_; }  // without those of the tokenizer
  const std::vector<Tensor>& tensors() const { return tensors_; }
  uint64_t bytes() const;  // of all tensors

  // Writes the bytes of a tensor from byte `first` on, which must be a multiple of 4. Any thread may call it.
  void fill(size_t tensor, uint64_t first, std::span<std::byte> into) const;

  // The model as a checkpoint. Its tensors are laid out one after another in `memory`, each at a multiple of
  // kAlignment.
  static constexpr uint64_t kAlignment = 64;
  uint64_t memory_bytes() const;
  Checkpoint checkpoint(std::span<const std::byte> memory, std::shared_ptr<const void> owner) const;

 private:
  // How the bytes of a tensor are made.
  struct Content {
    const std::vector<std::byte>* pattern = nullptr;
    uint64_t start = 0;              // in the pattern
    std::vector<float> factors;      // one for each row of an f32 pattern; empty: all 1
    std::vector<float> values = {};  // all values of a tensor without a pattern
  };

  static SyntheticModel begin(const ShapeConfig& shape, std::vector<GgufMetadata::Entry> keys);
  // The content of the next tensor.
  Content content_of(OutlinedTensor& tensor);
  void add(OutlinedTensor& tensor, Content content);
  const std::vector<std::byte>& pattern(Format format, uint64_t columns);

  std::string name_;
  const ModelShape* shape_ = nullptr;
  std::vector<GgufMetadata::Entry> keys_;
  std::vector<Tensor> tensors_;
  std::vector<Content> contents_;
  // The patterns by format and width. Tensors refer to them, so their addresses must not change.
  std::map<std::pair<Format, uint64_t>, std::unique_ptr<const std::vector<std::byte>>> patterns_;
  std::vector<float> normal_;
};

}  // namespace sluice

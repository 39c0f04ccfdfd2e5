// A synthetic model has the shape of a real one (shapes.h), tensor by tensor in the formats of a converted file, but
// made-up weights. It is for measuring speed and memory, where only sizes and routing count.
//
// Matrices hold normal numbers of variance 1 / columns, so activations keep their size; norms and scales hold ones,
// biases zeros. All matrices of one format and width are cuts of one pattern of 1021 blocks of 256 elements, encoded
// once, so a gigabyte is made as fast as it is copied.
//
// Routing: the length of an expert's row in the router decides how often normal logits choose that expert. Half of
// normal logits are negative, so no expert is chosen for more than kMostChosen of the tokens.
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

// How often experts are chosen: the expert of rank r in proportion to r^-exponent, or to its recorded use. Ranks are
// spread over the experts.
struct Routing {
  double exponent = 0;                // 0: all alike
  std::vector<double> recorded = {};  // by rank, the favourite first, each above 0; empty: use the exponent
};
inline constexpr double kMostChosen = 0.4;

// "zipf:1.0" or "uniform".
Result<Routing> parse_routing(const std::string& text);
// The frequency of each rank, when a token uses `used` of all experts. There are as many ranks as were recorded, if
// any.
std::vector<double> chosen_shares(const Routing& routing, uint32_t experts, uint32_t used);

class SyntheticModel {
 public:
  // Fails with `invalid` when the recorded number of experts is not the shape's.
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
  const std::vector<GgufMetadata::Entry>& keys() const { return keys_; }  // all but the tokenizer's
  const std::vector<Tensor>& tensors() const { return tensors_; }
  uint64_t bytes() const;  // of all tensors

  // The bytes of a tensor from `first` on, which must be a multiple of 4. Any thread may call it.
  void fill(size_t tensor, uint64_t first, std::span<std::byte> into) const;

  // The model as a checkpoint. Its tensors lie one after another in `memory`, each at a multiple of kAlignment.
  static constexpr uint64_t kAlignment = 64;
  uint64_t memory_bytes() const;
  Checkpoint checkpoint(std::span<const std::byte> memory, std::shared_ptr<const void> owner) const;

 private:
  // The source of a tensor's bytes.
  struct Content {
    const std::vector<std::byte>* pattern = nullptr;
    uint64_t start = 0;              // in the pattern
    std::vector<float> factors;      // of each row, of an f32 pattern; none: 1
    std::vector<float> values = {};  // without a pattern: all values
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
  // By format and width; their addresses stay.
  std::map<std::pair<Format, uint64_t>, std::unique_ptr<const std::vector<std::byte>>> patterns_;
  std::vector<float> normal_;
};

}  // namespace sluice

// A low-rank adapter of a model: for some of its weights W two factors A and B, so that W + scale B A acts in the place
// of W. Source: Hu et al. 2021 (LoRA, arXiv:2106.09685).
//
// It is read from the directory that the PEFT library saves (adapter_config.json, adapter_model.safetensors) or from an
// adapter file of llama.cpp (GGUF, general.type "adapter"). Both fit every model of the family, whatever files that one
// lies in: heads are put into the order of the model's own files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/format.h"
#include "graph/weights.h"
#include "model/model.h"
#include "model/weight_table.h"

namespace sluice {

// The factors of all experts of a weight as f32, expert behind expert; a matrix without experts is one. An expert that
// the adapter leaves as it is has zeros.
struct AdapterFactors {
  std::vector<float> a;  // experts x [rank, columns]; of an embedding [vocabulary, rank]
  std::vector<float> b;  // experts x [rows, rank]; of an embedding [columns, rank]
};

struct AdaptedWeight {
  std::string weight;         // canonical: "layer.3.q_proj"
  bool is_embedding = false;  // the weight is changed where its rows are read by token, else where it multiplies
  WeightShape shape;          // of the weight
  uint32_t rank = 0;
  float scale = 1;  // of the product of the factors
  // The factors' numbers are exact in these formats: f32, f16 or bf16.
  Format a = Format::f32, b = Format::f32;
};

class Adapter {
 public:
  // Fails with one sentence when the file is no plain LoRA, when a factor names no weight of the model, or when its
  // shape does not fit.
  static Result<std::shared_ptr<const Adapter>> open(const Model& model, const std::string& path);

  // One with drawn factors in f16 on every product of the text program, for benchmarks. Other seeds make other ones.
  static Result<std::shared_ptr<const Adapter>> made(const Model& model, uint32_t rank, uint64_t seed);

  const std::string& path() const { return path_; }
  const std::string& digest() const { return digest_; }  // of factors and scales: 64 hexadecimal digits
  const std::vector<AdaptedWeight>& weights() const { return weights_; }
  uint32_t rank() const;  // the highest
  AdapterFactors factors(size_t weight) const;

 private:
  friend class AdapterReader;

  // A pair of stored factors. A stored matrix has the rows of one expert behind those of another; the columns of B as
  // PEFT stores them for experts are those of rank 0 of all experts, then those of rank 1.
  struct Pair {
    TensorSource a, b;  // one matrix each
    uint32_t rank = 0;
    uint32_t expert = 0;        // the first expert that the pair is for
    uint32_t experts = 1;       // behind one another
    bool shares_a = false;      // one A for all of them
    bool by_rank = false;       // B's columns: k * experts + expert
    uint32_t first_row = 0;     // within B's rows of an expert
    uint32_t stored_rows = 0;   // B's rows of an expert
    bool swapped = false;       // the pair is that of the transposed weight
    bool transposed_a = false;  // A is stored as [columns, rank]
    float factor = 1;           // by which B is multiplied, besides AdaptedWeight::scale
  };
  struct Stored {
    std::vector<Pair> pairs;
    HeadOrder heads;       // between the adapter's order and the model's
    bool to_gguf = false;  // the model has GGUF's order, and the adapter Hugging Face's
  };

  Adapter() = default;

  std::string path_, digest_;
  std::vector<AdaptedWeight> weights_;
  std::vector<Stored> stored_;  // by weight
};

struct AdapterUse {
  std::shared_ptr<const Adapter> adapter;
  float scale = 1;  // besides the adapter's own
};
// Adapters that act together: their changes add up.
using AdapterSum = std::vector<AdapterUse>;

}  // namespace sluice

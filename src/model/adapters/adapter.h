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

// A stored tensor of an adapter, as a matrix: the last dimension's elements are its columns.
struct StoredFactor {
  std::string name;  // in the adapter's file
  std::vector<int64_t> shape;
  std::vector<float> numbers;
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

  // For training: the stored tensors, and where their numbers stand among the factors.
  size_t stored_count() const { return files_.size(); }
  StoredFactor stored(size_t tensor) const;
  // A number of factors(): `a` or `b`, at `index`, is `factor` times number `stored_index` of stored tensor `tensor`.
  struct Place {
    bool is_b = false;
    size_t index = 0;
    size_t tensor = 0, stored_index = 0;
    float factor = 1;
  };
  // Calls f(const Place&) for every number of factors(weight) that a stored tensor has. Not for embeddings.
  template <class F>
  void each_place(size_t weight, const F& f) const;

 private:
  friend class AdapterReader;

  // A pair of stored factors. A stored matrix has the rows of one expert behind those of another; the columns of B as
  // PEFT stores them for experts are those of rank 0 of all experts, then those of rank 1.
  struct Pair {
    TensorSource a, b;                  // one matrix each
    size_t stored_a = 0, stored_b = 0;  // indices into files_
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

  // Where a row or column of the file stands in the model's order of heads; empty: where it is.
  static std::vector<uint32_t> order_of(const Stored& stored, uint32_t count);

  static AdapterFactors embedding_factors(const AdaptedWeight& adapted, const Pair& pair);

  // Calls f(row, column, is_b, of_b, stored row, stored column) for the numbers of one expert of a pair's factors: row
  // and column are those of the factor, A or B (is_b), before heads are put into the model's order; the number is of
  // the stored A or B (of_b).
  template <class F>
  static void each_of_pair(const Pair& pair, uint32_t expert, uint32_t rows, uint32_t columns, const F& f);

  std::string path_, digest_;
  std::vector<AdaptedWeight> weights_;
  std::vector<Stored> stored_;  // by weight
  // The tensors of the file.
  struct File {
    std::string name;
    std::vector<int64_t> shape;
    TensorSource source;  // one matrix
  };
  std::vector<File> files_;
};

template <class F>
void Adapter::each_of_pair(const Pair& pair, uint32_t expert, uint32_t rows, uint32_t columns, const F& f) {
  const uint32_t first = pair.shares_a ? 0 : expert * pair.rank;
  const auto place_a = [&](uint32_t k, uint32_t column, bool is_b, uint32_t row_of, uint32_t column_of) {
    pair.transposed_a ? f(row_of, column_of, is_b, false, column, k)
                      : f(row_of, column_of, is_b, false, first + k, column);
  };
  const auto place_b = [&](uint32_t row, uint32_t k, bool is_b, uint32_t row_of, uint32_t column_of) {
    const uint32_t from = (pair.by_rank ? 0 : expert) * pair.stored_rows + pair.first_row + row;
    f(row_of, column_of, is_b, true, from, pair.by_rank ? k * pair.experts + expert : k);
  };
  for (uint32_t k = 0; k < pair.rank; ++k) {
    for (uint32_t i = 0; i < columns; ++i) pair.swapped ? place_b(i, k, false, k, i) : place_a(k, i, false, k, i);
    for (uint32_t i = 0; i < rows; ++i) pair.swapped ? place_a(k, i, true, i, k) : place_b(i, k, true, i, k);
  }
}

template <class F>
void Adapter::each_place(size_t weight, const F& f) const {
  const AdaptedWeight& adapted = weights_[weight];
  const Stored& stored = stored_[weight];
  const uint32_t rank = adapted.rank, rows = adapted.shape.rows, columns = adapted.shape.columns;
  // Heads reorder the columns of A or the rows of B.
  const std::vector<uint32_t> order = order_of(stored, stored.heads.columns ? columns : rows);
  for (const Pair& pair : stored.pairs)
    for (uint32_t e = 0; e < pair.experts; ++e)
      each_of_pair(
          pair, e, rows, columns,
          [&](uint32_t row, uint32_t column, bool is_b, bool of_b, uint32_t stored_row, uint32_t stored_column) {
            const bool turned = !order.empty() && is_b != stored.heads.columns;
            if (turned) (is_b ? row : column) = order[is_b ? row : column];
            const size_t expert = size_t{pair.expert} + e;
            const size_t tensor = of_b ? pair.stored_b : pair.stored_a;
            f(Place{.is_b = is_b,
                    .index = is_b ? (expert * rows + row) * rank + column : (expert * rank + row) * columns + column,
                    .tensor = tensor,
                    .stored_index = size_t{stored_row} * files_[tensor].source.shape.columns + stored_column,
                    .factor = of_b ? pair.factor : 1.0f});
          });
}

struct AdapterUse {
  std::shared_ptr<const Adapter> adapter;
  float scale = 1;  // besides the adapter's own
};
// Adapters that act together: their changes add up.
using AdapterSum = std::vector<AdapterUse>;

}  // namespace sluice

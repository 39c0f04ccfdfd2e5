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
  // Numbers of factors(): `count` of `a` or `b`, at `index` and each `step` further, are `factor` times those of stored
  // tensor `tensor` at `stored_index` and each `stored_step` further.
  struct Run {
    bool is_b = false;
    size_t index = 0, step = 1;
    size_t tensor = 0, stored_index = 0, stored_step = 1;
    size_t count = 1;
    float factor = 1;
  };
  // Calls f(const Run&) until every number of factors(weight) that a stored tensor has was in one. Not for embeddings.
  template <class F>
  void each_run(size_t weight, const F& f) const;

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

  // Numbers of one expert of a pair: a row of A or a column of B (is_b), from row and column on, of the stored A or B
  // (of_b) from stored row and column on, and the step to the next number in each.
  struct Line {
    bool is_b = false, of_b = false;
    uint32_t row = 0, column = 0, count = 0;
    uint32_t stored_row = 0, stored_column = 0;
    bool along_stored_row = true;  // the next number is in the next column of the stored one, else in the next row
  };
  static Line line_of(const Pair& pair, uint32_t expert, uint32_t k, bool is_b, uint32_t count);

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
void Adapter::each_run(size_t weight, const F& f) const {
  const AdaptedWeight& adapted = weights_[weight];
  const Stored& stored = stored_[weight];
  const size_t rank = adapted.rank, rows = adapted.shape.rows, columns = adapted.shape.columns;
  // Heads reorder the columns of A or the rows of B.
  const std::vector<uint32_t> order =
      order_of(stored, stored.heads.columns ? adapted.shape.columns : adapted.shape.rows);
  const auto give = [&](const Pair& pair, size_t expert, const Line& line) {
    const size_t tensor = line.of_b ? pair.stored_b : pair.stored_a;
    const size_t stored_columns = files_[tensor].source.shape.columns;
    Run run{.is_b = line.is_b,
            .index = line.is_b ? (expert * rows + line.row) * rank + line.column
                               : (expert * rank + line.row) * columns + line.column,
            .step = line.is_b ? rank : 1,
            .tensor = tensor,
            .stored_index = line.stored_row * stored_columns + line.stored_column,
            .stored_step = line.along_stored_row ? 1 : stored_columns,
            .count = line.count,
            .factor = line.of_b ? pair.factor : 1.0f};
    if (order.empty() || line.is_b == stored.heads.columns) return f(run);
    const size_t first = run.index, stored_first = run.stored_index;
    run.count = 1;
    for (size_t i = 0; i < line.count; ++i) {
      run.index = first + order[i] * run.step;
      run.stored_index = stored_first + i * run.stored_step;
      f(run);
    }
  };
  for (const Pair& pair : stored.pairs)
    for (uint32_t e = 0; e < pair.experts; ++e)
      for (uint32_t k = 0; k < pair.rank; ++k)
        for (const bool is_b : {false, true})
          give(pair, size_t{pair.expert} + e,
               line_of(pair, e, k, is_b, is_b ? adapted.shape.rows : adapted.shape.columns));
}

struct AdapterUse {
  std::shared_ptr<const Adapter> adapter;
  float scale = 1;  // besides the adapter's own
};
// Adapters that act together: their changes add up.
using AdapterSum = std::vector<AdapterUse>;

}  // namespace sluice

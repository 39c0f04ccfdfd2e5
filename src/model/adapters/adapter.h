// A low-rank adapter of a model: for some of its weights W two factors A and B, so that W + scale B A acts in the place
// of W. Source: Hu et al. 2021 (LoRA, arXiv:2106.09685).
//
// It is read from the directory that the PEFT library saves (adapter_config.json, adapter_model.safetensors), from that
// of mlx-lm (adapter_config.json, adapters.safetensors) or from an adapter file of llama.cpp (GGUF, general.type
// "adapter"). All fit every model of the family, whatever files that one lies in: heads are put into the order of the
// model's own files.
#pragma once

#include <array>
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
  // Numbers of factors() and where they are stored. For all numbers i, j and k below the counts of `by`, in this order,
  // the number of `a` or `b` at index + the steps of i, j and k is `factor` times that of stored tensor `tensor` at
  // stored_index + their stored steps.
  struct Run {
    struct Dimension {
      size_t count = 1, step = 0, stored_step = 0;
      bool in_order = false;  // number i is order[i] steps further
    };
    bool is_b = false;
    size_t index = 0;
    size_t tensor = 0, stored_index = 0;
    float factor = 1;
    std::array<Dimension, 3> by{};
    std::vector<uint32_t> order{};

    size_t elements() const { return by[0].count * by[1].count * by[2].count; }
    // Numbers at `index` and each `step` further, which are stored at `stored_index` and each `stored_step` further.
    struct Line {
      size_t index = 0, step = 1;
      size_t stored_index = 0, stored_step = 1;
      size_t count = 1;

      // Calls f(at, stored_at) for each of the numbers.
      template <class F>
      void each(const F& f) const {
        if (step == 1 && stored_step == 1)  // compilers make vectors of this one
          for (size_t i = 0; i < count; ++i) f(index + i, stored_index + i);
        else
          for (size_t i = 0; i < count; ++i) f(index + i * step, stored_index + i * stored_step);
      }
    };
    // Calls f(const Line&) for the numbers whose i is from `first` to `end` - 1.
    template <class F>
    void each_line(size_t first, size_t end, const F& f) const;
  };
  // Every number of factors(weight) that a stored tensor has is in one. Not for embeddings. Of two numbers i only one
  // has a stored number, unless by[0].count is 1.
  std::vector<Run> runs(size_t weight) const;

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
    bool transposed_b = false;  // B is stored as [rank, rows]
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

  // The steps between stored numbers of neighbouring experts, ranks, and columns of A or rows of B.
  struct StoredSteps {
    size_t expert = 0, rank = 0, number = 0;
  };
  static StoredSteps steps_of(const Pair& pair, bool of_b, size_t columns);
  Run run_of(const AdaptedWeight& adapted, const Stored& stored, const Pair& pair, bool is_b) const;

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
void Adapter::Run::each_line(size_t first, size_t end, const F& f) const {
  const auto step_of = [&](const Dimension& one, size_t i) { return (one.in_order ? order[i] : i) * one.step; };
  const Dimension& inner = by[2];
  for (size_t i = first; i < end; ++i)
    for (size_t j = 0; j < by[1].count; ++j) {
      const size_t at = index + step_of(by[0], i) + step_of(by[1], j);
      const size_t stored_at = stored_index + i * by[0].stored_step + j * by[1].stored_step;
      if (!inner.in_order) {
        f(Line{at, inner.step, stored_at, inner.stored_step, inner.count});
        continue;
      }
      for (size_t k = 0; k < inner.count; ++k)
        f(Line{.index = at + step_of(inner, k), .stored_index = stored_at + k * inner.stored_step});
    }
}

struct AdapterUse {
  std::shared_ptr<const Adapter> adapter;
  float scale = 1;  // besides the adapter's own
};
// Adapters that act together: their changes add up.
using AdapterSum = std::vector<AdapterUse>;

}  // namespace sluice

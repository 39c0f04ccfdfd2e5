// A model's weights: each with its canonical name, its shape, and what every source calls it.
//
// One table serves three readers: bind() finds the weights in a checkpoint, a program takes names and shapes from it
// (WeightScope), and export.h writes GGUF by it. Big tensors are used where they lie: a weight that a source keeps
// inside a fused tensor is a run of that tensor's rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/recorder.h"
#include "graph/weights.h"

namespace sluice {

// What a vector goes through at load, where a source keeps it in another form than GGUF, whose form is the program's.
enum class Transform : uint8_t { none, plus_one, minus_exp };  // x, 1 + x, -exp(x)

// Where one source keeps a weight: a tensor of its own, or rows [first_row, first_row + rows) of a tensor of
// `total_rows` rows (of each expert). A '*' in the name stands for the number of an expert, each of which then is a
// tensor of its own.
struct SourceName {
  std::string name = {};
  uint32_t first_row = 0;
  uint32_t total_rows = 0;  // 0: the tensor is the weight
  Transform transform = Transform::none;
  bool one_matrix = false;  // the experts' rows one after another in a matrix
  bool transposed = false;  // each expert's matrix; such tensors are written, and not read

  bool same_part(const SourceName& other) const {
    return first_row == other.first_row && total_rows == other.total_rows && one_matrix == other.one_matrix &&
           transposed == other.transposed;
  }
  bool is_whole() const { return total_rows == 0; }
};
inline SourceName in_one_matrix(std::string name, uint32_t first_row, uint32_t total_rows) {
  return {.name = std::move(name), .first_row = first_row, .total_rows = total_rows, .one_matrix = true};
}
inline SourceName transposed(std::string name) { return {.name = std::move(name), .transposed = true}; }

// Heads that GGUF files keep in another order than Hugging Face's: member j of group g, of `width` rows or columns from
// `first` on, is head g * per_group + j there and head j * groups + g in GGUF.
struct HeadOrder {
  uint32_t first = 0;
  uint32_t groups = 1, per_group = 1;  // 1: the order is the same
  uint32_t width = 1;
  bool columns = false;

  // Where what GGUF has at `index` is in a Hugging Face checkpoint.
  uint32_t source(uint32_t index) const {
    if (index < first) return index;
    const uint32_t head = (index - first) / width, element = (index - first) % width;
    return first + (head % groups * per_group + head / groups) * width + element;
  }
};

struct WeightRow {
  std::string name;  // canonical: "layer.3.q_proj"
  WeightShape shape;
  std::vector<SourceName> hugging_face;  // the first that a checkpoint has is the one used;
  std::vector<SourceName> gguf;          // the first in which the weight can be written as it lies, or by itself
  bool optional = false;
  HeadOrder gguf_heads = {};

  const std::vector<SourceName>& sources(Dialect dialect) const {
    return dialect == Dialect::gguf ? gguf : hugging_face;
  }
};

class WeightTable {
 public:
  // Prefixes of the rows that follow: canonical, Hugging Face, GGUF.
  void section(std::string canonical, std::string hugging_face, std::string gguf);

  // A weight with one name in each source; or one that sources keep under several names or inside another tensor.
  void add(const char* name, WeightShape shape, const char* hugging_face, const char* gguf);
  void add(const char* name, WeightShape shape, std::vector<SourceName> hugging_face, std::vector<SourceName> gguf);
  // The same, absent from some checkpoints; no names: never in that source.
  void add_optional(const char* name, WeightShape shape, std::vector<SourceName> hugging_face,
                    std::vector<SourceName> gguf);
  // The last weight has its heads in another order when it is written to GGUF.
  void gguf_heads(const HeadOrder& order) { rows_.back().gguf_heads = order; }
  // A tensor that some checkpoints carry and that is no weight of the program; null: not in that source.
  void ignore(const char* hugging_face, const char* gguf);
  // Tensors of towers: all whose source name begins so, below no section.
  void towers(Dialect dialect, std::vector<std::string> prefixes);

  const std::vector<WeightRow>& rows() const { return rows_; }
  bool ignores(Dialect dialect, const std::string& source_name) const;
  bool in_tower(Dialect dialect, const std::string& source_name) const;

 private:
  static constexpr int kDialects = 2;

  std::string canonical_, hugging_face_, gguf_;  // prefixes of the section
  std::vector<WeightRow> rows_;
  std::unordered_set<std::string> ignored_[kDialects];
  std::vector<std::string> towers_[kDialects];
};

// Dimensions of the tensor that holds a weight, outermost first: [columns], [rows, columns] or [experts, rows,
// columns]; where each expert is a tensor of its own, of one of them.
std::vector<int64_t> stored_shape(const WeightShape& shape, const SourceName& source);

inline WeightShape matrix(uint32_t rows, uint32_t columns) { return {1, rows, columns}; }
inline WeightShape vector_of(uint32_t columns) { return {1, 1, columns}; }

// A row of the table found in a checkpoint.
struct BoundWeight {
  WeightRow row;
  SourceName source;                     // which of the row's names it was; a Hugging Face name without its prefix
  const StoredTensor* stored = nullptr;  // its elements; the first expert's, where each is a tensor of its own
  TensorSource whole;   // all of `stored`, of every expert, and its parts; transformed as the weight is
  TensorSource tensor;  // the weight: `whole` or some of its rows
};

// Tensors by the names that a table uses: the stored name without the first of `prefixes` that it begins with, without
// "_packed", and with ".weight" for ".qweight" (weight_parts.h). Fails when two tensors come to one name.
class SourceNames {
 public:
  static Result<SourceNames> read(const Checkpoint& checkpoint, const std::vector<std::string>& prefixes);
  const StoredTensor* find(const std::string& name) const;
  const std::vector<std::pair<std::string, const StoredTensor*>>& all() const { return all_; }  // in file order
  // The first of `prefixes` that some tensor has: what the checkpoint puts before a name of the text model.
  const std::string& prefix() const { return prefix_; }
  const std::vector<std::string>& prefixes() const { return prefixes_; }  // all that it might put

 private:
  std::vector<std::string> prefixes_;
  std::string prefix_;
  std::vector<std::pair<std::string, const StoredTensor*>> all_;
  std::unordered_map<std::string, const StoredTensor*> index_;
};

class BoundWeights final : public WeightSource {
 public:
  Result<TensorSource> find(const std::string& name) const override;
  const BoundWeight* bound(const std::string& canonical) const;
  const std::vector<BoundWeight>& all() const { return all_; }
  // Stored tensors that no weight uses: those of towers and those nobody knows, and the latter alone.
  const std::vector<std::string>& unread() const { return unread_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  friend Result<BoundWeights> bind_weights(const WeightTable&, const Checkpoint&, const SourceNames&);

  std::vector<BoundWeight> all_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::string> unread_, unknown_;
};

// Every row of the table in the checkpoint. Fails with one sentence when tensors are missing, have another shape, or a
// format that is not computed with.
Result<BoundWeights> bind_weights(const WeightTable& table, const Checkpoint& checkpoint, const SourceNames& names);

// The weights of one part of a program: scope["q_proj"] is the weight "layer.3.q_proj", of its table's shape.
class WeightScope {
 public:
  WeightScope(Recorder& recorder, const BoundWeights& weights, std::string prefix)
      : recorder_(&recorder), weights_(&weights), prefix_(std::move(prefix)) {}
  bool has(const char* name) const { return weights_->bound(prefix_ + name) != nullptr; }
  Weight operator[](const char* name) const;  // which the table has

 private:
  Recorder* recorder_;
  const BoundWeights* weights_;
  std::string prefix_;
};

}  // namespace sluice

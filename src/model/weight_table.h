// A model's weight table: each weight with its canonical name, its shape, and its name in every source.
//
// Three readers use the table. bind() finds the weights in a checkpoint, a program takes names and shapes from it
// (WeightScope), and export.h writes GGUF by it. Big tensors are used where they lie: a weight inside a fused tensor is
// a run of that tensor's rows.
#pragma once

#include <cstdint>
#include <functional>
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

// The change of a vector at load when a source keeps it in another form than GGUF. GGUF's form is the program's.
enum class Transform : uint8_t { none, plus_one, minus_exp, minus, softplus };  // x, 1 + x, -exp(x), -x, ln(1 + exp(x))

// The place of a weight in one source: a tensor of its own, or rows [first_row, first_row + rows) of a tensor of
// `total_rows` rows (of each expert). A '*' in the name stands for an expert's number; each expert then is a tensor of
// its own.
struct SourceName {
  std::string name = {};
  uint32_t first_row = 0;
  uint32_t total_rows = 0;  // 0: the tensor is the weight
  Transform transform = Transform::none;
  bool one_matrix = false;          // the experts' rows follow one another in one matrix
  bool transposed = false;          // each expert's matrix is transposed; such tensors are written, not read
  std::vector<int64_t> shape = {};  // as stored, where the same elements have other dimensions

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

// Heads that GGUF keeps in another order than Hugging Face: member j of group g, with `width` rows or columns from
// `first` on, is head g * per_group + j in Hugging Face's order and head j * groups + g in GGUF's.
struct HeadOrder {
  uint32_t first = 0;
  uint32_t groups = 1, per_group = 1;  // 1: the order is the same
  uint32_t width = 1;
  bool columns = false;

  // The index in a Hugging Face checkpoint of the row or column that GGUF has at `index`.
  uint32_t source(uint32_t index) const {
    if (index < first) return index;
    const uint32_t head = (index - first) / width, element = (index - first) % width;
    return first + (head % groups * per_group + head / groups) * width + element;
  }
};

struct WeightRow {
  std::string name;  // canonical: "layer.3.q_proj"
  WeightShape shape;
  std::vector<SourceName> hugging_face;  // the first one found in a checkpoint is used;
  std::vector<SourceName> gguf;          // the first one in which the weight can be written as it lies, or by itself
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

  // A weight with one name in each source, or one that sources keep under several names or inside another tensor.
  void add(const char* name, WeightShape shape, const char* hugging_face, const char* gguf);
  void add(const char* name, WeightShape shape, std::vector<SourceName> hugging_face, std::vector<SourceName> gguf);
  // The same for a weight that some checkpoints lack. Without names a source never has it.
  void add_optional(const char* name, WeightShape shape, std::vector<SourceName> hugging_face,
                    std::vector<SourceName> gguf);
  // The last weight's heads have another order in GGUF.
  void gguf_heads(const HeadOrder& order) { rows_.back().gguf_heads = order; }
  // A tensor of some checkpoints that is no weight of the program. Null: the source never has it.
  void ignore(const char* hugging_face, const char* gguf);
  // Tensors of towers: all whose source name begins with this, without the prefix of a section.
  void towers(Dialect dialect, std::vector<std::string> prefixes);

  // The weights are a tower's: a missing one is named without the text model's prefix.
  void beside_text() { beside_text_ = true; }

  const std::vector<WeightRow>& rows() const { return rows_; }
  bool is_beside_text() const { return beside_text_; }
  bool ignores(Dialect dialect, const std::string& source_name) const;
  bool in_tower(Dialect dialect, const std::string& source_name) const;

 private:
  static constexpr int kDialects = 2;

  std::string canonical_, hugging_face_, gguf_;  // prefixes of the section
  std::vector<WeightRow> rows_;
  bool beside_text_ = false;
  std::unordered_set<std::string> ignored_[kDialects];
  std::vector<std::string> towers_[kDialects];
};

// Dimensions of the tensor with a weight, outermost first: [columns], [rows, columns] or [experts, rows, columns]. If
// each expert is a tensor of its own, those of one expert.
std::vector<int64_t> stored_shape(const WeightShape& shape, const SourceName& source);

inline WeightShape matrix(uint32_t rows, uint32_t columns) { return {1, rows, columns}; }
inline WeightShape vector_of(uint32_t columns) { return {1, 1, columns}; }

// A table row as found in a checkpoint.
struct BoundWeight {
  WeightRow row;
  SourceName source;                     // the row's name that was found; a Hugging Face name without its prefix
  const StoredTensor* stored = nullptr;  // its elements; the first expert's if each expert is a tensor of its own
  TensorSource whole;   // all of `stored`, of every expert, and its parts; transformed as the weight is
  TensorSource tensor;  // the weight: `whole` or some of its rows
};

// Tensors by the names of a table. A table's name is the stored name without the first fitting one of `prefixes`,
// without "_packed", and with ".weight" for ".qweight" (weight_parts.h). Fails when two tensors get one name.
class SourceNames {
 public:
  static Result<SourceNames> read(const Checkpoint& checkpoint, const std::vector<std::string>& prefixes);
  const StoredTensor* find(const std::string& name) const;
  const std::vector<std::pair<std::string, const StoredTensor*>>& all() const { return all_; }  // in file order
  // The first of `prefixes` that some tensor has: the checkpoint's prefix of the text model.
  const std::string& prefix() const { return prefix_; }
  const std::vector<std::string>& prefixes() const { return prefixes_; }  // all that it might put

 private:
  std::vector<std::string> prefixes_;
  std::string prefix_;
  std::vector<std::pair<std::string, const StoredTensor*>> all_;
  std::unordered_map<std::string, const StoredTensor*> index_;
};

class MadeWeight;

class BoundWeights final : public WeightSource {
 public:
  Result<TensorSource> find(const std::string& name) const override;
  const BoundWeight* bound(const std::string& canonical) const;
  const std::vector<BoundWeight>& all() const { return all_; }
  // The shape of a weight, bound or made; null: there is none of that name.
  const WeightShape* shape_of(const std::string& canonical) const;
  // A weight in no source, of one expert: `make` computes its rows of f32 from other weights when it is first asked
  // for.
  void add_made(const std::string& canonical, WeightShape shape, std::function<std::vector<float>()> make);
  // Stored tensors that no weight uses: those of towers and unknown ones; and the unknown ones alone.
  const std::vector<std::string>& unread() const { return unread_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  friend Result<BoundWeights> bind_weights(const WeightTable&, const Checkpoint&, const SourceNames&);

  std::vector<BoundWeight> all_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, std::shared_ptr<MadeWeight>> made_;
  std::vector<std::string> unread_, unknown_;
};

// Finds every row of the table in the checkpoint. Fails with one sentence when tensors are missing, have another shape,
// or a format that no device computes with.
Result<BoundWeights> bind_weights(const WeightTable& table, const Checkpoint& checkpoint, const SourceNames& names);

// The weights of one part of a program: scope["q_proj"] is the weight "layer.3.q_proj" with the table's shape.
class WeightScope {
 public:
  WeightScope(Recorder& recorder, const BoundWeights& weights, std::string prefix)
      : recorder_(&recorder), weights_(&weights), prefix_(std::move(prefix)) {}
  bool has(const char* name) const { return weights_->shape_of(prefix_ + name) != nullptr; }
  Weight operator[](const char* name) const;  // there must be one

 private:
  Recorder* recorder_;
  const BoundWeights* weights_;
  std::string prefix_;
};

}  // namespace sluice

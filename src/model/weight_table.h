// A model's weight table: each weight with its canonical name, its shape, and its name in every source.
//
// The table has three uses. bind_weights() finds the weights in a checkpoint, a program takes names and shapes from the
// table (WeightScope), and export.h writes GGUF files by it. Large tensors are not copied: a weight that is part of a
// fused tensor is a range of that tensor's rows.
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

// How a vector is changed at load if a source stores it in another form than GGUF. Programs use GGUF's form.
enum class Transform : uint8_t { none, plus_one, minus_exp, minus, softplus };  // x, 1 + x, -exp(x), -x, ln(1 + exp(x))

// The place of a weight in one source: a whole tensor, or rows [first_row, first_row + rows) of a tensor with
// `total_rows` rows (for each expert). A '*' in the name stands for an expert's number: the source then has one tensor
// for each expert.
struct SourceName {
  std::string name = {};
  uint32_t first_row = 0;
  uint32_t total_rows = 0;  // 0: the weight is the whole tensor
  Transform transform = Transform::none;
  bool one_matrix = false;          // one matrix holds the rows of expert 0, then those of expert 1, and so on
  bool transposed = false;          // each expert's matrix is transposed; such tensors are written but not read
  std::vector<int64_t> shape = {};  // the stored dimensions, if they are not those of the weight; else empty

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

// The order of heads, for a weight whose heads GGUF stores in another order than Hugging Face. Member j of group g is
// head g * per_group + j in Hugging Face's order and head j * groups + g in GGUF's. A head has `width` rows or columns,
// and the first head begins at row or column `first`.
struct HeadOrder {
  uint32_t first = 0;
  uint32_t groups = 1, per_group = 1;  // either is 1: both orders are the same
  uint32_t width = 1;
  bool columns = false;

  // The index in Hugging Face's order of the row or column that has `index` in GGUF's order.
  uint32_t source(uint32_t index) const {
    if (index < first) return index;
    const uint32_t head = (index - first) / width, element = (index - first) % width;
    return first + (head % groups * per_group + head / groups) * width + element;
  }
};

struct WeightRow {
  std::string name;  // canonical: "layer.3.q_proj"
  WeightShape shape;
  std::vector<SourceName> hugging_face;  // the first name that a checkpoint has is used
  std::vector<SourceName> gguf;          // the same; export.cpp chooses the name that is written
  bool optional = false;
  HeadOrder gguf_heads = {};
  bool gguf_ordered = false;  // this checkpoint stores the heads in GGUF's order

  HeadOrder order_to_gguf() const { return gguf_ordered ? HeadOrder() : gguf_heads; }

  const std::vector<SourceName>& sources(Dialect dialect) const {
    return dialect == Dialect::gguf ? gguf : hugging_face;
  }
};

class WeightTable {
 public:
  // Sets the prefixes for the names in all rows that are added later: canonical, Hugging Face, GGUF.
  void section(std::string canonical, std::string hugging_face, std::string gguf);

  // Adds a weight with one name in each source, or a weight with several possible names or inside a fused tensor.
  void add(const char* name, WeightShape shape, const char* hugging_face, const char* gguf);
  void add(const char* name, WeightShape shape, std::vector<SourceName> hugging_face, std::vector<SourceName> gguf);
  // Adds a weight that some checkpoints lack. A source without names never has the weight.
  void add_optional(const char* name, WeightShape shape, std::vector<SourceName> hugging_face,
                    std::vector<SourceName> gguf);
  // Sets the order in which GGUF stores the heads of the weight that was added last. `is_there`: so does this
  // checkpoint.
  void gguf_heads(const HeadOrder& order, bool is_there = false) {
    rows_.back().gguf_heads = order;
    rows_.back().gguf_ordered = is_there;
  }
  // Names a tensor that some checkpoints have but the program does not use. Null: the source never has it.
  void ignore(const char* hugging_face, const char* gguf);
  // A tensor whose name begins with one of these belongs to a tower. The prefix of a section does not apply here.
  void towers(Dialect dialect, std::vector<std::string> prefixes);

  // The table is that of a tower: the names of missing weights are given without the text model's prefix.
  void beside_text() { beside_text_ = true; }

  const std::vector<WeightRow>& rows() const { return rows_; }
  bool is_beside_text() const { return beside_text_; }
  bool ignores(Dialect dialect, const std::string& source_name) const;
  bool in_tower(Dialect dialect, const std::string& source_name) const;

 private:
  static constexpr int kDialects = 2;

  std::string canonical_, hugging_face_, gguf_;  // prefixes of the current section
  std::vector<WeightRow> rows_;
  bool beside_text_ = false;
  std::unordered_set<std::string> ignored_[kDialects];
  std::vector<std::string> towers_[kDialects];
};

// The dimensions of the stored tensor with a weight, outermost first: [columns], [rows, columns] or [experts, rows,
// columns]. If each expert has a tensor of its own, the dimensions of one such tensor.
std::vector<int64_t> stored_shape(const WeightShape& shape, const SourceName& source);

inline WeightShape matrix(uint32_t rows, uint32_t columns) { return {1, rows, columns}; }
inline WeightShape vector_of(uint32_t columns) { return {1, 1, columns}; }

// A table row as found in a checkpoint.
struct BoundWeight {
  WeightRow row;
  SourceName source;                     // the name that was found; a Hugging Face name has no prefix
  const StoredTensor* stored = nullptr;  // the stored tensor; that of the first expert if each has its own
  TensorSource whole;   // all rows of the stored tensor, for all experts, with scales; transformed like the weight
  TensorSource tensor;  // the weight: all or some of the rows of `whole`
};

// Finds stored tensors by the names that weight tables use. Such a name is the stored name without the first of
// `prefixes` that it begins with, without "_packed", and with ".weight" in place of ".qweight" (weight_parts.h). Fails
// when two tensors get the same name.
class SourceNames {
 public:
  static Result<SourceNames> read(const Checkpoint& checkpoint, const std::vector<std::string>& prefixes);
  const StoredTensor* find(const std::string& name) const;
  const std::vector<std::pair<std::string, const StoredTensor*>>& all() const { return all_; }  // in file order
  // The first of `prefixes` with which some tensor's name begins: the text model's prefix in this checkpoint.
  const std::string& prefix() const { return prefix_; }
  const std::vector<std::string>& prefixes() const { return prefixes_; }  // all possible prefixes

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
  // The shape of a weight that was found or made; null if no weight has that name.
  const WeightShape* shape_of(const std::string& canonical) const;
  // Adds a weight without experts that no source has. When the weight is first read, `make` computes its f32 rows from
  // other weights.
  void add_made(const std::string& canonical, WeightShape shape, std::function<std::vector<float>()> make);
  // unread(): stored tensors that no weight uses, either of towers or unknown. unknown(): the unknown ones only.
  const std::vector<std::string>& unread() const { return unread_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  friend Result<BoundWeights> bind_weights(const WeightTable&, const Checkpoint&, const SourceNames&);

  std::vector<BoundWeight> all_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, std::shared_ptr<MadeWeight>> made_;
  std::vector<std::string> unread_, unknown_;
};

// Finds every weight of the table in the checkpoint. Fails with one sentence when tensors are missing, have another
// shape, or have a format that no device computes with.
Result<BoundWeights> bind_weights(const WeightTable& table, const Checkpoint& checkpoint, const SourceNames& names);

// The weights whose names begin with one prefix: with the prefix "layer.3.", scope["q_proj"] is "layer.3.q_proj" with
// the shape in the table.
class WeightScope {
 public:
  WeightScope(Recorder& recorder, const BoundWeights& weights, std::string prefix)
      : recorder_(&recorder), weights_(&weights), prefix_(std::move(prefix)) {}
  bool has(const char* name) const { return weights_->shape_of(prefix_ + name) != nullptr; }
  Weight operator[](const char* name) const;  // the weight must exist

 private:
  Recorder* recorder_;
  const BoundWeights* weights_;
  std::string prefix_;
};

}  // namespace sluice

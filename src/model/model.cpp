#include "model/model.h"

#include <type_traits>
#include <unordered_set>

#include "base/mutex.h"
#include "base/sha256.h"
#include "checkpoint/contents.h"
#include "model/draft_weights.h"
#include "model/facts.h"
#include "model/family.h"

namespace sluice {
namespace {

template <class T>
void add_bytes(Sha256& sha, const T& value) {
  static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
  sha.add(std::as_bytes(std::span(&value, 1)));
}

// Text with its length, so that two neighbours cannot pass for two others.
void add_text(Sha256& sha, const std::string& text) {
  add_bytes(sha, uint64_t{text.size()});
  sha.add(text);
}

template <class T>
void add_value(Sha256& sha, const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    add_bytes(sha, value);
  else
    add_text(sha, value);
}
template <class T>
void add_value(Sha256& sha, const GgufArray<T>& values) {
  add_bytes(sha, uint64_t{values.size()});
  for (size_t i = 0; i < values.size(); ++i) add_value<T>(sha, values[i]);
}

// What the configuration says of how numbers are read; where they lie the tensors say.
void add_grid(Sha256& sha, const NumberGrid& grid) {
  add_bytes(sha, grid.word);
  add_bytes(sha, grid.interleaved);
  add_bytes(sha, grid.bits);
  add_bytes(sha, grid.added);
}

void add_weight(Sha256& sha, const BoundWeight& weight) {
  const TensorSource& tensor = weight.tensor;
  add_text(sha, weight.row.name);
  add_text(sha, format_name(tensor.format));
  add_bytes(sha, tensor.shape.experts);
  add_bytes(sha, tensor.shape.rows);
  add_bytes(sha, tensor.shape.columns);
  for (const WeightPart& part : tensor.parts) {
    add_bytes(sha, part.role);
    add_text(sha, format_name(part.format));
    add_bytes(sha, part.block_rows);
    add_bytes(sha, part.block_columns);
    if (part.grid) add_grid(sha, *part.grid);
  }
}

}  // namespace

struct Model::Data {
  std::shared_ptr<const Checkpoint> checkpoint;
  const Family* family = nullptr;
  std::unique_ptr<FamilyModel> model;
  BoundWeights weights;
  BoundWeights draft_head;
  std::unique_ptr<DraftWeights> draft_weights;
  std::optional<Error> draft_problem;  // of a head that is not whole
  std::vector<std::string> unread;
  ModelFacts facts;
  std::shared_ptr<ContentsMemory> memory;
  std::shared_ptr<const Data> without_head;  // null: the head, if any, lies in the model's own files
  static Result<std::shared_ptr<Data>> read(std::shared_ptr<const Checkpoint> checkpoint,
                                            std::shared_ptr<ContentsMemory> memory);
  mutable Mutex digesting;
  mutable std::string digest;  // "": nobody asked
};

const ModelFacts& Model::facts() const { return data_->facts; }
const Checkpoint& Model::checkpoint() const { return *data_->checkpoint; }
const BoundWeights& Model::weights() const { return data_->weights; }
const Family& Model::family() const { return *data_->family; }
const FamilyModel& Model::family_model() const { return *data_->model; }

const BoundWeights& Model::draft_head() const { return data_->draft_head; }
const std::vector<std::string>& Model::unread_tensors() const { return data_->unread; }
bool Model::has_draft_head() const { return data_->draft_weights != nullptr; }
const WeightSource& Model::draft_weights() const { return *data_->draft_weights; }

Result<Program> Model::record_draft() const {
  if (data_->draft_problem) return *data_->draft_problem;
  if (!has_draft_head()) {
    return error(ErrorKind::unsupported, checkpoint().path(),
                 ": has no layer for multi-token prediction: want one to draft by mtp");
  }
  Recorder recorder;
  data_->model->record_draft(recorder, data_->weights, data_->draft_head);
  Result<Program> program = recorder.finish();
  if (!program) return error(program.error().kind, checkpoint().path(), ": draft head: ", program.error().text);
  return program;
}

Result<Program> Model::record_text(const TextOptions& options) const {
  Recorder recorder;
  recorder.take_adapters(options.adapters);
  data_->model->record_text(recorder, data_->weights, options);
  Result<Program> program = recorder.finish();
  if (!program) return error(program.error().kind, checkpoint().path(), ": ", program.error().text);
  return program;
}

const std::string& Model::digest() const {
  if (data_->without_head != nullptr) return Model(data_->without_head).digest();
  const MutexLock lock(data_->digesting);
  std::string& digest = data_->digest;
  if (!digest.empty()) return digest;
  Sha256 sha;
  add_text(sha, data_->family->name);
  for (const auto& [name, value] : data_->model->gguf_config()) {
    add_text(sha, name);
    std::visit([&](const auto& v) { add_value(sha, v); }, value);
  }
  for (const MadeTensor& made : data_->model->gguf_made_tensors()) add_value(sha, made.values);
  for (const BoundWeight& weight : data_->weights.all()) add_weight(sha, weight);
  sha.add(contents_of(checkpoint(), data_->memory.get()));
  digest = sha.finish_hex();
  return digest;
}

Result<std::shared_ptr<Model::Data>> Model::Data::read(std::shared_ptr<const Checkpoint> checkpoint,
                                                       std::shared_ptr<ContentsMemory> memory) {
  auto data = std::make_shared<Data>();
  TRY(data->family, find_family(*checkpoint));
  const bool prefixed = checkpoint->dialect() == Dialect::hugging_face;
  TRY(const SourceNames names,
      SourceNames::read(*checkpoint, prefixed ? data->family->prefixes : std::vector<std::string>{}));
  TRY(data->model, data->family->read(*checkpoint, names));
  TRY(data->weights, bind_weights(data->model->weight_table(), *checkpoint, names));
  data->unread = data->weights.unread();
  if (const std::optional<WeightTable> table = data->model->draft_table()) {
    Result<BoundWeights> head = bind_weights(*table, *checkpoint, names);
    if (head) {
      data->draft_head = *std::move(head);
      data->draft_weights = std::make_unique<DraftWeights>(data->weights, data->draft_head);
      const std::unordered_set<std::string> left(data->draft_head.unread().begin(), data->draft_head.unread().end());
      std::erase_if(data->unread, [&](const std::string& name) { return !left.contains(name); });
    } else {
      data->draft_problem = std::move(head).error();
    }
  }
  data->facts.family = data->family->name;
  data->model->describe(data->facts);
  uint64_t made = 0;
  for (const MadeTensor& tensor : data->model->gguf_made_tensors()) made += tensor.values.size();
  TRY_STATUS(read_facts(*checkpoint, data->weights, made, data->facts));
  data->checkpoint = std::move(checkpoint);
  data->memory = std::move(memory);
  return data;
}

Result<Model> resolve(std::shared_ptr<const Checkpoint> checkpoint, std::shared_ptr<ContentsMemory> memory) {
  TRY(auto data, Model::Data::read(std::move(checkpoint), std::move(memory)));
  return Model(std::move(data));
}

Result<Model> with_draft_head(const Model& model, const std::string& path) {
  if (model.has_draft_head()) return model;
  TRY(Checkpoint joined, join_draft_head(model.checkpoint(), path));
  TRY(auto data, Model::Data::read(std::make_shared<const Checkpoint>(std::move(joined)), nullptr));
  data->without_head = model.data_;
  return Model(std::move(data));
}

}  // namespace sluice

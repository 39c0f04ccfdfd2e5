#include "model/model.h"

#include <algorithm>
#include <iterator>
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

// The length goes before the text, so that different pairs of texts cannot give the same bytes.
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

// How packed integers are read depends on the configuration, so it is part of the digest. Where they lie follows from
// the tensors, which are added already.
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

const char* what_is_missing(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::vision: return "has no vision tower: want a model that takes pictures";
    case ProgramKind::audio: return "has no audio tower: want a model that takes sounds";
    case ProgramKind::text:
    case ProgramKind::draft_head: break;
  }
  return "has no layer for multi-token prediction: want one to draft by mtp";
}

}  // namespace

// A program with its weights. `problem` says why a program that the configuration names is not complete.
struct PlacedProgram {
  const FamilyProgram* program = nullptr;
  BoundWeights own;
  std::unique_ptr<DraftWeights> joined;  // a draft head's weights and the text program's; null for other programs
  std::optional<Error> problem;
};

struct Model::Data {
  std::shared_ptr<const Checkpoint> checkpoint;
  const Family* family = nullptr;
  FamilyModel model;
  std::vector<PlacedProgram> programs;  // in the order of FamilyModel::programs
  std::vector<std::string> unread, of_towers;
  ModelFacts facts;
  std::shared_ptr<ContentsMemory> memory;
  std::shared_ptr<const Data> without_head;   // the model before a draft head of another file was added, or null
  std::shared_ptr<const Checkpoint> drafter;  // of a draft model's own, and its program; or null
  std::unique_ptr<FamilyProgram> draft_program;
  static Result<std::shared_ptr<Data>> read(std::shared_ptr<const Checkpoint> checkpoint,
                                            std::shared_ptr<ContentsMemory> memory);
  Status bind_programs(const SourceNames& names);
  Status add_draft_model(Checkpoint opened);
  void take_from_unread(const PlacedProgram& placed);
  void describe_towers();
  const PlacedProgram* find(ProgramKind kind) const;
  mutable Mutex digesting;
  mutable std::string digest;  // "": not computed yet
};

const ModelFacts& Model::facts() const { return data_->facts; }
const Checkpoint& Model::checkpoint() const { return *data_->checkpoint; }
const Family& Model::family() const { return *data_->family; }
const FamilyModel& Model::family_model() const { return data_->model; }

const std::vector<std::string>& Model::unread_tensors() const { return data_->unread; }
const std::vector<std::string>& Model::tower_tensors() const { return data_->of_towers; }

const char* program_name(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::text: return "text";
    case ProgramKind::vision: return "vision tower";
    case ProgramKind::audio: return "audio tower";
    case ProgramKind::draft_head: break;
  }
  return "draft head";
}

const PlacedProgram* Model::Data::find(ProgramKind kind) const {
  const auto found = std::ranges::find(programs, kind, [](const PlacedProgram& one) { return one.program->kind; });
  return found == programs.end() ? nullptr : &*found;
}

std::vector<ProgramKind> Model::programs() const {
  std::vector<ProgramKind> kinds;
  for (const PlacedProgram& one : data_->programs)
    if (!one.problem) kinds.push_back(one.program->kind);
  return kinds;
}

bool Model::has(ProgramKind kind) const {
  const PlacedProgram* found = data_->find(kind);
  return found != nullptr && !found->problem;
}

const BoundWeights& Model::own_weights(ProgramKind kind) const {
  CHECK(has(kind));
  return data_->find(kind)->own;
}

bool Model::has_draft_model() const { return data_->drafter != nullptr; }
bool Model::may_have_draft_model() const { return data_->model.read_draft_model != nullptr; }

const WeightSource& Model::weights_of(ProgramKind kind) const {
  CHECK(has(kind));
  const PlacedProgram& found = *data_->find(kind);
  if (found.joined == nullptr) return found.own;
  return *found.joined;
}

Result<const FamilyProgram*> Model::whole(ProgramKind kind) const {
  const PlacedProgram* found = data_->find(kind);
  if (found == nullptr && kind == ProgramKind::draft_head && may_have_draft_model())
    return error(ErrorKind::unsupported, checkpoint().path(),
                 ": no draft model was given: want one beside it or as --draft-model to draft by mtp");
  if (found == nullptr) return error(ErrorKind::unsupported, checkpoint().path(), ": ", what_is_missing(kind));
  if (found->problem) return *found->problem;
  return found->program;
}

Result<TowerInputs> Model::prepare(const Picture& picture, const PictureOptions& options) const {
  TRY(const FamilyProgram* program, whole(ProgramKind::vision));
  return program->prepare_picture(picture, options);
}

Result<TowerInputs> Model::prepare(const Sound& sound) const {
  TRY(const FamilyProgram* program, whole(ProgramKind::audio));
  return program->prepare_sound(sound);
}

Result<TowerInputs> Model::prepare(std::span<const Picture> frames, const FilmOptions& options) const {
  TRY(const FamilyProgram* program, whole(ProgramKind::vision));
  CHECK(!frames.empty() && frames.size() <= program->film.frames_per_step);
  return program->prepare_frames(frames, options);
}

const FilmRules& Model::film_rules() const {
  CHECK(has(ProgramKind::vision));
  return data_->find(ProgramKind::vision)->program->film;
}

uint32_t Model::most_rows(ProgramKind kind, const PictureOptions& options) const {
  CHECK(has(kind));
  return data_->find(kind)->program->most_rows(options);
}

const TowerTokens& Model::tower_tokens(ProgramKind kind) const {
  CHECK(has(kind));
  return data_->find(kind)->program->tokens;
}

bool Model::sees_ahead(ProgramKind kind) const {
  CHECK(has(kind));
  return data_->find(kind)->program->sees_ahead;
}

Result<Program> Model::record(ProgramKind kind, const TextOptions& options) const {
  TRY(const FamilyProgram* family_program, whole(kind));
  TextOptions chosen = options;
  chosen.media = options.media && (has(ProgramKind::vision) || has(ProgramKind::audio));
  Recorder recorder;
  if (kind == ProgramKind::text) recorder.take_adapters(options.adapters);
  family_program->record(recorder, weights(), own_weights(kind), chosen);
  Result<Program> program = recorder.finish();
  if (program) return program;
  const std::string what = kind == ProgramKind::text ? "" : cat(": ", program_name(kind));
  return error(program.error().kind, checkpoint().path(), what, ": ", program.error().text);
}

const std::string& Model::digest() const {
  if (data_->without_head != nullptr) return Model(data_->without_head).digest();
  const MutexLock lock(data_->digesting);
  std::string& digest = data_->digest;
  if (!digest.empty()) return digest;
  Sha256 sha;
  add_text(sha, data_->family->name);
  for (const auto& [name, value] : data_->model.gguf_config) {
    add_text(sha, name);
    std::visit([&](const auto& v) { add_value(sha, v); }, value);
  }
  for (const MadeTensor& made : data_->model.gguf_made_tensors) add_value(sha, made.values);
  for (const BoundWeight& weight : weights().all()) add_weight(sha, weight);
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
  data->checkpoint = std::move(checkpoint);
  TRY_STATUS(data->bind_programs(names));
  data->facts = data->model.facts;
  data->facts.family = data->family->name;
  data->describe_towers();
  uint64_t made = 0;
  for (const MadeTensor& tensor : data->model.gguf_made_tensors) made += tensor.values.size();
  TRY_STATUS(read_facts(*data->checkpoint, data->programs.front().own, made, data->facts));
  data->memory = std::move(memory);
  return data;
}

// A model opens if its text program is complete. Another program that is not complete gets a `problem`.
Status Model::Data::bind_programs(const SourceNames& names) {
  programs.reserve(model.programs.size() + 1);  // elements must not move: others refer to the first one
  for (const FamilyProgram& program : model.programs) {
    PlacedProgram& placed =
        programs.emplace_back(PlacedProgram{.program = &program, .own = {}, .joined = {}, .problem = program.problem});
    if (placed.problem) continue;
    Result<BoundWeights> own = bind_weights(program.weights, *checkpoint, names);
    const bool is_text = program.kind == ProgramKind::text;
    if (!own && is_text) return std::move(own).error();
    if (!own) {
      placed.problem = std::move(own).error();
      continue;
    }
    placed.own = *std::move(own);
    if (program.make_weights) program.make_weights(placed.own);
    if (is_text) {
      unread = placed.own.unread();
      continue;
    }
    if (program.kind == ProgramKind::draft_head)
      placed.joined = std::make_unique<DraftWeights>(programs.front().own, placed.own);
    take_from_unread(placed);
  }
  return {};
}

// `opened` has all that the text program does not give.
Status Model::Data::add_draft_model(Checkpoint opened) {
  drafter = std::make_shared<const Checkpoint>(std::move(opened));
  TRY(const SourceNames names, SourceNames::read(*drafter, family->prefixes));
  TRY(FamilyProgram program, model.read_draft_model(*drafter, names));
  draft_program = std::make_unique<FamilyProgram>(std::move(program));
  TRY(BoundWeights own, bind_weights(draft_program->weights, *drafter, names));
  PlacedProgram& placed = programs.emplace_back(
      PlacedProgram{.program = draft_program.get(), .own = std::move(own), .joined = {}, .problem = {}});
  if (draft_program->make_weights) draft_program->make_weights(placed.own);
  placed.joined = std::make_unique<DraftWeights>(programs.front().own, placed.own);
  return {};
}

void Model::Data::take_from_unread(const PlacedProgram& placed) {
  const std::unordered_set<std::string> left(placed.own.unread().begin(), placed.own.unread().end());
  const auto is_read = [&](const std::string& name) { return !left.contains(name); };
  if (is_tower(placed.program->kind)) std::ranges::copy_if(unread, std::back_inserter(of_towers), is_read);
  std::erase_if(unread, is_read);
}

void Model::Data::describe_towers() {
  for (const PlacedProgram& placed : programs) {
    if (!is_tower(placed.program->kind)) continue;
    facts.details.emplace_back(program_name(placed.program->kind),
                               placed.problem ? cat("not run: ", placed.problem->text) : placed.program->summary);
  }
}

Result<Model> resolve(std::shared_ptr<const Checkpoint> checkpoint, std::shared_ptr<ContentsMemory> memory) {
  TRY(auto data, Model::Data::read(std::move(checkpoint), std::move(memory)));
  return Model(std::move(data));
}

Result<Model> with_projector(const Model& model, const std::string& path) {
  TRY(Checkpoint joined, join_projector(model.checkpoint(), path));
  TRY(auto data, Model::Data::read(std::make_shared<const Checkpoint>(std::move(joined)), model.data_->memory));
  return Model(std::move(data));
}

Result<Model> with_draft_head(const Model& model, const std::string& path) {
  if (model.has(ProgramKind::draft_head)) return model;
  std::shared_ptr<Model::Data> data;
  if (model.may_have_draft_model()) {
    TRY(Checkpoint drafter, open_checkpoint(path));
    TRY_ASSIGN(data, Model::Data::read(model.data_->checkpoint, nullptr));
    TRY_STATUS(data->add_draft_model(std::move(drafter)));
  } else {
    TRY(Checkpoint joined, join_draft_head(model.checkpoint(), path));
    TRY_ASSIGN(data, Model::Data::read(std::make_shared<const Checkpoint>(std::move(joined)), nullptr));
  }
  data->without_head = model.data_;
  return Model(std::move(data));
}

}  // namespace sluice

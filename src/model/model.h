// A model: a checkpoint understood. Its family, its facts, its weights by canonical name, its programs.
//
//   TRY(Checkpoint checkpoint, open_checkpoint(path));
//   TRY(const Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
//   TRY(const Program program, model.record_text());
//
// A Model is a cheap handle on shared, constant data; copies and the weights it gives keep the checkpoint's mappings
// alive. Safe from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/program.h"
#include "model/tower.h"
#include "model/weight_table.h"

namespace sluice {

struct Family;
class ContentsMemory;
struct FamilyModel;
struct FamilyProgram;

// What the file itself asks for; nothing where it says nothing.
struct SamplingDefaults {
  std::optional<float> temperature;  // 0: greedy
  std::optional<uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repeat_penalty;
};

struct ModelFacts {
  std::string family;      // "gemma4"
  std::string name;        // general.name, or the folder's
  std::string size_label;  // "8.5M", with experts "8x356K"
  uint32_t vocabulary = 0;
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t context_length = 0;
  uint64_t parameters = 0;  // of the text model, a tied head counted once
  std::vector<std::pair<std::string, std::string>>
      details;                           // more for a reader: {"attention", "6 sliding (64), 2 full"}
  std::vector<int32_t> eos_ids;          // tokens that end an answer, as far as the configuration says
  std::vector<int32_t> suppress_tokens;  // never to be sampled
  SamplingDefaults sampling;
  std::vector<std::string> ignored;  // sampling defaults that mean nothing here, each with what would
};

// What a program of a model is for. Every model has the text program; an engine asks for the kinds that it knows.
enum class ProgramKind : uint8_t {
  // Inputs "tokens" i32 [rows, 1] and "wanted" i32 [wanted, 1]; outputs "logits" f32 [wanted, vocabulary] and "sample".
  text,
  // The head for multi-token prediction. Inputs "tokens", "hidden" (rows of the text program's) and "wanted"; outputs
  // "hidden" [wanted, hidden], "logits" and "sample".
  draft_head,
  // Towers: rows of the text for one picture or one sound (tower.h). Output "rows" f32 [media_rows, hidden].
  vision,
  audio,
};
const char* program_name(ProgramKind kind);  // "draft head", for sentences
constexpr bool is_tower(ProgramKind kind) { return kind == ProgramKind::vision || kind == ProgramKind::audio; }

struct TextOptions {
  bool all_named = false;  // every intermediate has all rows: nothing but the logits is narrowed to wanted rows
  bool hidden = false;     // "hidden" f32 [rows, hidden] is an output: what the head for drafts takes
  // Of a model with a whole tower: the program takes rows of towers by the inputs "media_rows" f32 [media_rows, hidden]
  // and "media" i32 [rows, 1], which names the row that stands in a token's place, or -1. Where pictures see ahead it
  // takes "last" i32 [rows, 1] as well, the last position that a row sees.
  bool media = true;
  AdapterOptions adapters{};
};

class Model {
 public:
  const ModelFacts& facts() const;
  const Checkpoint& checkpoint() const;

  // The programs that the checkpoint has whole, the text program first.
  std::vector<ProgramKind> programs() const;
  bool has(ProgramKind kind) const;
  // Without a whole one, the sentence that says so. Options are the text program's.
  Result<Program> record(ProgramKind kind, const TextOptions& options = {}) const;
  Result<Program> record_text(const TextOptions& options = {}) const { return record(ProgramKind::text, options); }
  // What its program asks for; of one that there is.
  const WeightSource& weights_of(ProgramKind kind) const;
  // Those of them that the text program has not; of a program that there is.
  const BoundWeights& own_weights(ProgramKind kind) const;

  // Of a tower; without a whole one, the sentence that record() gives. What cannot be prepared is one sentence as well.
  Result<TowerInputs> prepare(const Picture& picture, const PictureOptions& options = {}) const;
  Result<TowerInputs> prepare(const Sound& sound) const;
  // Frames of a film that follow one another: as many as make one step of the tower, at the film's end fewer.
  Result<TowerInputs> prepare(std::span<const Picture> frames, const FilmOptions& options) const;
  const FilmRules& film_rules() const;  // of a vision tower that there is
  // Of a tower that there is.
  const TowerTokens& tower_tokens(ProgramKind kind) const;
  bool sees_ahead(ProgramKind kind) const;

  const BoundWeights& weights() const { return own_weights(ProgramKind::text); }
  // Tensors of the checkpoint that whole towers read.
  const std::vector<std::string>& tower_tensors() const;
  // Tensors of the checkpoint that no program reads: those of towers that are not whole and those nobody here knows;
  // and the latter alone.
  const std::vector<std::string>& unread_tensors() const;
  const std::vector<std::string>& unknown_tensors() const { return weights().unknown(); }

  // 64 hexadecimal digits that differ between models: of names, shapes, configuration and every byte of every tensor.
  // The first call reads all of the files, or asks the memory that resolve() was given; later ones repeat it.
  const std::string& digest() const;

  // For export.h.
  const Family& family() const;
  const FamilyModel& family_model() const;

 private:
  struct Data;
  Result<const FamilyProgram*> whole(ProgramKind kind) const;
  explicit Model(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  friend Result<Model> resolve(std::shared_ptr<const Checkpoint> checkpoint, std::shared_ptr<ContentsMemory> memory);
  friend Result<Model> with_projector(const Model& model, const std::string& path);
  friend Result<Model> with_draft_head(const Model& model, const std::string& path);

  std::shared_ptr<const Data> data_;
};

// Finds the family by general.architecture or config.json's model_type, reads its configuration and finds its weights.
// One sentence when the architecture is unknown, the configuration out of range, or a tensor missing, misshapen or in a
// format that is not computed with.
Result<Model> resolve(std::shared_ptr<const Checkpoint> checkpoint, std::shared_ptr<ContentsMemory> memory = nullptr);

// The model with the towers of another file (checkpoint.h, join_projector), which count for its digest.
Result<Model> with_projector(const Model& model, const std::string& path);

// The model with the head for multi-token prediction of another file (checkpoint/draft_file.h). Its digest is the
// model's, because no answer depends on drafts. A model that has a head already stays as it is.
Result<Model> with_draft_head(const Model& model, const std::string& path);

}  // namespace sluice

// A model: a checkpoint with its family, its facts, its weights by canonical name, and its programs.
//
//   TRY(Checkpoint checkpoint, open_checkpoint(path));
//   TRY(const Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
//   TRY(const Program program, model.record_text());
//
// A Model is a cheap handle on shared, constant data. Copies of it, and the weights that it returns, keep the
// checkpoint's mappings alive. Several threads may use it.
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

// The sampling settings that the file suggests; a setting without a value in the file is none.
struct SamplingDefaults {
  std::optional<float> temperature;  // 0: greedy
  std::optional<uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repeat_penalty;
};

struct ModelFacts {
  std::string family;      // "gemma4"
  std::string name;        // general.name, or the name of the folder
  std::string size_label;  // "8.5M"; with experts "8x356K"
  uint32_t vocabulary = 0;
  uint32_t hidden = 0;
  uint32_t layers = 0;
  uint32_t context_length = 0;
  uint64_t parameters = 0;  // of the text model; a tied head counts once
  // Further lines to show: {"attention", "6 sliding (64), 2 full"}.
  std::vector<std::pair<std::string, std::string>> details;
  std::vector<int32_t> eos_ids;          // the tokens of the configuration that end an answer
  std::vector<int32_t> suppress_tokens;  // tokens that are never sampled
  SamplingDefaults sampling;
  std::vector<std::string> ignored;  // sampling defaults with meaningless values, each with the range that is wanted
};

// The purpose of a program. Every model has a text program; the engine asks for the other kinds that it can use.
enum class ProgramKind : uint8_t {
  // Inputs "tokens" i32 [rows, 1] and "wanted" i32 [wanted, 1]; outputs "logits" f32 [wanted, vocabulary] and "sample".
  text,
  // The head for multi-token prediction. Inputs "tokens", "hidden" (rows of the text program's output "hidden") and
  // "wanted"; outputs "hidden" [wanted, hidden], "logits" and "sample". Or a model of its own that drafts, which reads
  // other outputs of the text program as well (engine/draft/draft_head.h).
  draft_head,
  // Towers turn one picture or one sound into rows of the text (tower.h). Output "rows" f32 [media_rows, hidden].
  vision,
  audio,
};
const char* program_name(ProgramKind kind);  // "draft head", for sentences
constexpr bool is_tower(ProgramKind kind) { return kind == ProgramKind::vision || kind == ProgramKind::audio; }

struct TextOptions {
  bool all_named = false;  // every intermediate has all rows: only the logits are narrowed to wanted rows
  bool hidden = false;     // adds the output "hidden" and others that the draft head takes
  // For a model with a complete tower: adds the inputs "media_rows" f32 [media_rows, hidden], the rows of towers, and
  // "media" i32 [rows, 1], the tower's row that stands in a token's place, or -1. If rows of a picture see later rows
  // of it, adds "last" i32 [rows, 1], the last position that a row sees.
  bool media = true;
  AdapterOptions adapters{};
};

class Model {
 public:
  const ModelFacts& facts() const;
  const Checkpoint& checkpoint() const;

  // The programs for which the checkpoint has every weight, the text program first.
  std::vector<ProgramKind> programs() const;
  bool has(ProgramKind kind) const;
  // Whether a model of its own drafts for it (with_draft_head), and whether its family has such ones.
  bool has_draft_model() const;
  bool may_have_draft_model() const;
  // Fails with one sentence when the model has no such program or the program is not complete. `options` are for the
  // text program.
  Result<Program> record(ProgramKind kind, const TextOptions& options = {}) const;
  Result<Program> record_text(const TextOptions& options = {}) const { return record(ProgramKind::text, options); }
  // The weights that a program reads. The model must have that program.
  const WeightSource& weights_of(ProgramKind kind) const;
  // The weights of a program without those that it shares with the text program. The model must have that program.
  const BoundWeights& own_weights(ProgramKind kind) const;

  // Prepares a picture or a sound for its tower. Fails with record()'s sentence when there is no complete tower, and
  // with one sentence when the picture or sound cannot be prepared.
  Result<TowerInputs> prepare(const Picture& picture, const PictureOptions& options = {}) const;
  Result<TowerInputs> prepare(const Sound& sound) const;
  // Prepares consecutive frames of a film for one step of the tower: film_rules().frames_per_step of them, or fewer at
  // the film's end.
  Result<TowerInputs> prepare(std::span<const Picture> frames, const FilmOptions& options) const;
  const FilmRules& film_rules() const;  // the model must have a vision tower
  // Rows of the largest picture with these options, or of the longest sound. The model must have that tower.
  uint32_t most_rows(ProgramKind kind, const PictureOptions& options = {}) const;
  // The model must have that tower.
  const TowerTokens& tower_tokens(ProgramKind kind) const;
  bool sees_ahead(ProgramKind kind) const;

  const BoundWeights& weights() const { return own_weights(ProgramKind::text); }
  // Tensors of the checkpoint that complete towers read.
  const std::vector<std::string>& tower_tensors() const;
  // Tensors of the checkpoint that no program reads: unknown tensors, and tensors of towers that are not complete.
  // unknown_tensors() has the unknown ones only.
  const std::vector<std::string>& unread_tensors() const;
  const std::vector<std::string>& unknown_tensors() const { return weights().unknown(); }

  // SHA-256 of names, shapes, configuration and every byte of every tensor, as 64 hexadecimal digits. The first call
  // reads all files, or looks the files up in the ContentsMemory that resolve() got; later calls return the same
  // string.
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

// Finds the family by general.architecture or config.json's model_type, reads the configuration and finds the weights.
// Fails with one sentence when the architecture is unknown, when a field of the configuration is out of range, or when
// a tensor is missing, has another shape, or has a format that no device computes with.
Result<Model> resolve(std::shared_ptr<const Checkpoint> checkpoint, std::shared_ptr<ContentsMemory> memory = nullptr);

// The model with the towers of another file (checkpoint.h, join_projector). The towers are part of the digest.
Result<Model> with_projector(const Model& model, const std::string& path);

// The model with the head for multi-token prediction of another file (checkpoint/draft_file.h), or with a model of its
// family that drafts for it. The digest does not change, because no answer depends on drafts. A model that has a head
// already stays as it is.
Result<Model> with_draft_head(const Model& model, const std::string& path);

}  // namespace sluice

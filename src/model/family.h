// The interface between a family's file (families/) and the rest of the program. No code outside a family's file asks
// which family a model belongs to.
//
// A family's file holds, in this order: how the family differs from its nearest relative; its config and the table of
// config fields (config.h); its weight table (weight_table.h); the state of each layer; its program; its Family. A new
// family needs such a file and a line in family.cpp.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/recorder.h"
#include "model/model.h"
#include "model/tower.h"
#include "model/weight_table.h"

namespace sluice {

// A tensor that only GGUF files have. It is computed from the configuration.
struct MadeTensor {
  std::string name;
  std::vector<float> values;  // one dimension, stored as F32
};

// A tensor that is written to an mmproj file in place of a weight and is computed from that weight.
struct ProjectorTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  std::string weight;          // canonical name
  std::function<std::vector<float>(const TensorSource& weight)> values;
};

// What an mmproj file of llama.cpp has for a tower in addition to the tensors of the weight table.
struct ProjectorPart {
  std::vector<GgufMetadata::Entry> keys;
  std::vector<ProjectorTensor> tensors = {};
  std::string problem = {};  // a value that no key of the file can hold: "rope theta is 50: want 100"; "": none
};

// One program of a model. The text program is the first; the other programs may share its weights.
struct FamilyProgram {
  ProgramKind kind{};
  WeightTable weights;  // without those that the text program has
  std::function<void(Recorder&, const BoundWeights& text, const BoundWeights& own, const TextOptions&)> record;
  std::function<void(BoundWeights& own)> make_weights = {};  // adds weights that are computed from others; may be empty
  // Why the program cannot be recorded although the configuration names it. The text program has no such problem.
  std::optional<Error> problem = {};

  // The members below are for towers. A vision tower prepares pictures, an audio tower prepares sounds.
  std::string summary = {};  // for a reader: "16 layers of 768, up to 280 rows a picture"
  std::function<Result<TowerInputs>(const Picture&, const PictureOptions&)> prepare_picture = {};
  std::function<Result<TowerInputs>(const Sound&)> prepare_sound = {};
  // Prepares consecutive frames of a film for one step of the tower, at most `film.frames_per_step` of them.
  std::function<Result<TowerInputs>(std::span<const Picture>, const FilmOptions&)> prepare_frames = {};
  FilmRules film = {};
  std::function<uint32_t(const PictureOptions&)> most_rows = {};  // of the largest picture, or of the longest sound
  TowerTokens tokens = {};
  ProjectorPart projector = {};
  bool sees_ahead = false;  // a row sees later rows of its picture, if the text program has the input "last"
};

// One model of a family, made from the configuration after that was read and checked.
struct FamilyModel {
  std::vector<FamilyProgram> programs;  // all that the checkpoint's configuration names, the text program first
  ModelFacts facts;                     // vocabulary, hidden, layers, context_length and details
  std::vector<GgufMetadata::Entry> gguf_config;
  std::vector<MadeTensor> gguf_made_tensors;
  // Reads a model that drafts for this one from a checkpoint of its own: the program is a draft head. Empty for a
  // family that has no such models. Fails with one sentence when the checkpoint is none, or one of another model.
  std::function<Result<FamilyProgram>(const Checkpoint& drafter, const SourceNames& names)> read_draft_model = {};
};

// A FamilyModel with the facts whose config members have the same names in every family.
template <class Config>
FamilyModel family_model(const Config& config) {
  FamilyModel model;
  model.facts.vocabulary = config.vocabulary;
  model.facts.hidden = config.hidden;
  model.facts.layers = config.layers;
  model.facts.context_length = config.context;
  return model;
}

struct Family {
  const char* name;                      // also general.architecture in GGUF
  const char* title;                     // for people: "Gemma 4"
  std::vector<std::string> model_types;  // config.json's model_type
  // What Hugging Face checkpoints put before the names of the text model.
  std::vector<std::string> prefixes;
  Result<FamilyModel> (*read)(const Checkpoint& checkpoint, const SourceNames& names);
  // What models that draft for this family's and cannot run alone call themselves: general.architecture and model_type.
  std::vector<std::string> draft_models = {};
};

// All families, in the order in which they are named to users.
std::span<const Family* const> all_families();
// Whether a general.architecture or model_type is that of a draft model.
bool is_draft_model(std::string_view type);
// The family of a checkpoint, or a sentence that names what was found and what is known.
Result<const Family*> find_family(const Checkpoint& checkpoint);

}  // namespace sluice

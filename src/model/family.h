// Families: what a family file gives to the rest of model/. Nobody else asks which family a model is of.
//
// A family file (gemma4.cpp) holds, in the order of its paper: what is unlike its nearest relative; its config and the
// table of its fields (config.h); its weight table (weight_table.h); its state per layer; its program; and at the end
// its Family. Adding one is that file and its line in family.cpp.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/recorder.h"
#include "model/model.h"
#include "model/tower.h"
#include "model/weight_table.h"

namespace sluice {

// A tensor that GGUF files carry and Hugging Face's do not, made from the configuration.
struct MadeTensor {
  std::string name;
  std::vector<float> values;  // one dimension, stored as F32
};

// A tensor of an mmproj file that is computed from a weight, in whose place it is written.
struct ProjectorTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  std::string weight;          // canonical name
  std::function<std::vector<float>(const TensorSource& weight)> values;
};

// What llama.cpp's mmproj file says of a tower beside the tensors of its weight table.
struct ProjectorPart {
  std::vector<GgufMetadata::Entry> keys;
  std::vector<ProjectorTensor> tensors = {};
  std::string problem = {};  // what of the configuration no key says: "rope theta is 50: want 100"; "": nothing
};

// One program of a model. The text program is the first; others may share its weights.
struct FamilyProgram {
  ProgramKind kind{};
  WeightTable weights;  // its own
  std::function<void(Recorder&, const BoundWeights& text, const BoundWeights& own, const TextOptions&)> record;
  std::function<void(BoundWeights& own)> make_weights = {};  // adds those that are computed from others; none: nothing
  std::optional<Error> problem =
      {};  // the configuration names it, but it cannot be recorded; never of the text program

  // Of towers. A vision tower prepares pictures, an audio tower sounds.
  std::string summary = {};  // for a reader: "16 layers of 768, up to 280 rows a picture"
  std::function<Result<TowerInputs>(const Picture&, const PictureOptions&)> prepare_picture = {};
  std::function<Result<TowerInputs>(const Sound&)> prepare_sound = {};
  // Frames of a film that make one step of the tower.
  std::function<Result<TowerInputs>(std::span<const Picture>, const FilmOptions&)> prepare_frames = {};
  FilmRules film = {};
  TowerTokens tokens = {};
  ProjectorPart projector = {};
  bool sees_ahead = false;  // rows of one picture see later rows of it where the text program takes "last"
};

// One model of a family: what its configuration, read and checked, comes to.
struct FamilyModel {
  std::vector<FamilyProgram> programs;  // those that the checkpoint's configuration names, the text program first
  ModelFacts facts;                     // vocabulary, hidden, layers, context_length and details
  std::vector<GgufMetadata::Entry> gguf_config;
  std::vector<MadeTensor> gguf_made_tensors;
};

// The begin of it, with what every family's configuration calls alike.
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
  std::vector<std::string> model_types;  // config.json's model_type
  // What Hugging Face checkpoints put before the names of the text model.
  std::vector<std::string> prefixes;
  Result<FamilyModel> (*read)(const Checkpoint& checkpoint, const SourceNames& names);
};

// All families, in the order in which they are named to users.
std::span<const Family* const> all_families();
// The family of a checkpoint, or a sentence that names what was found and what is known.
Result<const Family*> find_family(const Checkpoint& checkpoint);

}  // namespace sluice

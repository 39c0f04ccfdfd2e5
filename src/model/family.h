// Families: what a family file gives to the rest of model/. Nobody else asks which family a model is of.
//
// A family file (gemma4.cpp) holds, in the order of its paper: what is unlike its nearest relative; its config and the
// table of its fields (config.h); its weight table (weight_table.h); its state per layer; its program; and at the end
// its Family. Adding one is that file and its line in family.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "graph/recorder.h"
#include "model/model.h"
#include "model/weight_table.h"

namespace sluice {

// A tensor that GGUF files carry and Hugging Face's do not, made from the configuration.
struct MadeTensor {
  std::string name;
  std::vector<float> values;  // one dimension, stored as F32
};

// One model of a family: its configuration, read and checked.
class FamilyModel {
 public:
  virtual ~FamilyModel() = default;

  virtual WeightTable weight_table() const = 0;
  virtual void record_text(Recorder& recorder, const BoundWeights& weights, const TextOptions& options) const = 0;
  // The weights of a head for multi-token prediction, where the checkpoint has one; the matrix that joins an embedding
  // and a hidden row is "draft.fc", of which a program has the halves (draft_weights.h).
  virtual std::optional<WeightTable> draft_table() const { return std::nullopt; }
  virtual void record_draft(Recorder&, const BoundWeights& /*text*/, const BoundWeights& /*draft*/) const {}
  // Fills vocabulary, hidden, layers, context_length and details.
  virtual void describe(ModelFacts& facts) const = 0;
  virtual std::vector<GgufMetadata::Entry> gguf_config() const = 0;
  virtual std::vector<MadeTensor> gguf_made_tensors() const = 0;
};

struct Family {
  const char* name;                      // also general.architecture in GGUF
  std::vector<std::string> model_types;  // config.json's model_type
  // What Hugging Face checkpoints put before the names of the text model.
  std::vector<std::string> prefixes;
  Result<std::unique_ptr<FamilyModel>> (*read)(const Checkpoint& checkpoint, const SourceNames& names);
};

// All families, in the order in which they are named to users.
std::span<const Family* const> all_families();
// The family of a checkpoint, or a sentence that names what was found and what is known.
Result<const Family*> find_family(const Checkpoint& checkpoint);

}  // namespace sluice

// ServedModel: a model that is loaded, as requests are read for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat/open_model.h"
#include "engine/sampling.h"
#include "serve/model_card.h"

namespace sluice {

struct ServedModel : ModelCard {
  const TextParts* text = nullptr;
  const Model* model = nullptr;    // null: takes neither pictures nor sounds
  PictureOptions pictures;         // that pictures are prepared with
  uint64_t input_bytes = 0;        // of the inputs and rows of the largest picture or sound
  SamplingSettings sampling;       // what a request begins with
  std::vector<std::string> stops;  // of the model's store
  AdapterSum adapters;             // that act on every request

  bool takes(ProgramKind tower) const { return model != nullptr && model->has(tower); }
};

}  // namespace sluice

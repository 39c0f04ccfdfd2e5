// ServedModel: what the APIs know of the model that they serve.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/open_model.h"
#include "engine/sampling.h"
#include "serve/request_memory.h"

namespace sluice {

struct ServedModel {
  std::vector<std::string> names;  // under which requests may ask for it; the first one is shown
  const TextParts* text = nullptr;
  const Model* model = nullptr;  // null: takes neither pictures nor sounds
  const ModelFacts* facts = nullptr;
  PictureOptions pictures;          // that pictures are prepared with
  uint64_t input_bytes = 0;         // of the inputs and rows of the largest picture or sound
  RequestMemory* memory = nullptr;  // for requests; null: it is not counted
  uint32_t context = 0;             // the engine's
  int64_t created = 0;              // of the file, seconds since 1970
  std::string file_kind;            // "gguf", "safetensors"
  std::string weights;              // the format of most weights
  uint64_t bytes = 0;               // of its files
  SamplingSettings sampling;        // what a request begins with
  std::vector<std::string> stops;   // of the model's store
  std::string system;               // likewise
  AdapterSum adapters;              // that act on every request
  std::string version;              // of the program

  const std::string& id() const { return names.front(); }
  bool answers_to(std::string_view name) const;
  bool chats() const { return text->chat.has_value(); }
  bool thinks() const { return !text->dialect->open.empty(); }
  bool takes(ProgramKind tower) const { return model != nullptr && model->has(tower); }
  bool calls_tools() const { return chats() && text->tool_syntax != nullptr; }
};

}  // namespace sluice

// ModelCard: what a server knows of a model without having it loaded. Lists, /api/show and refusals need no more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/text_parts.h"
#include "model/model.h"

namespace sluice {

struct ModelCard {
  std::vector<std::string> names = {};  // under which requests may ask for it; the first one is shown
  ModelFacts facts = {};
  uint32_t context = 0;            // the engine's, in tokens
  int64_t created = 0;             // of the file, seconds since 1970
  std::string file_kind = {};      // "gguf", "safetensors"
  std::string weights = {};        // the format of most weights
  uint64_t bytes = 0;              // of its files
  std::string system = {};         // of the model's store
  std::string chat_template = {};  // its text; "": the model does not chat
  bool has_chat = false, has_thinking = false, has_tools = false, has_vision = false, has_audio = false;
  std::string version = {};  // of the program

  // The facts and abilities that model and text show.
  void describe(const Model& model, const TextParts& text);

  const std::string& id() const { return names.front(); }
  // With and without ":latest".
  bool answers_to(std::string_view name) const;
  bool chats() const { return has_chat; }
  bool thinks() const { return has_thinking; }
  bool calls_tools() const { return has_chat && has_tools; }
};

}  // namespace sluice

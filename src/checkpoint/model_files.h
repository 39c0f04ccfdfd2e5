// The files of one model, as found in the stores of other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace sluice {

enum class Origin : uint8_t { path, ollama, hugging_face, lm_studio };
inline const char* origin_name(Origin origin) {
  static constexpr const char* kNames[] = {"a path", "Ollama", "Hugging Face", "LM Studio"};
  return kNames[static_cast<size_t>(origin)];
}

struct ModelFiles {
  std::string name;  // the name to find it again: "gemma4:e2b", "org/repo", a path
  Origin origin{};
  std::string path;        // a GGUF file (the first of a split model) or a Hugging Face directory
  std::string projector;   // GGUF file of the towers; "": none, or the model's own file has them
  std::string draft_head;  // of a draft head alone (draft_file.h), or a draft model; "": none lies beside the model
  std::vector<std::string> adapters;  // LoRA files

  // The members below are from Ollama's store only.
  std::string go_template;            // a template of Go's text/template; it is not rendered, the model's own is
  std::string system;                 // the system prompt to begin with
  Json params;                        // an object of sampling settings, or null
  Json messages;                      // a list of messages to begin with, or null
  std::vector<std::string> families;  // as Ollama calls them: "gemma4", "clip"
  std::string format;                 // as Ollama calls it: "Q4_K_M"
};

}  // namespace sluice

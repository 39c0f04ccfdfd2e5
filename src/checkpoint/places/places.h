// The places on a machine where models are stored, and how a model is found by name.
//
//   gemma4:e2b, namespace/model:tag      Ollama's store (ollama_store.h)
//   org/repo, org/repo:Q4_K_M,
//   org/repo/file.gguf                   the Hugging Face cache (hub_cache.h) and LM Studio's folders
//   any existing file or folder          a path
//
// The environment is not read here: the caller hands it in.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_files.h"

namespace sluice {

struct Environment {
  std::string home;                              // "": unknown
  std::map<std::string, std::string> variables;  // those of kPlaceVariables that are set
};
inline constexpr const char* kPlaceVariables[] = {"OLLAMA_MODELS", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                                  "XDG_CACHE_HOME"};

// Folders, existing or not. Earlier ones win.
struct Places {
  std::vector<std::string> ollama;
  std::vector<std::string> hugging_face;
  std::vector<std::string> lm_studio;  // <folder>/<publisher>/<model>/
};
// The folders in which these programs keep their models. Reads LM Studio's settings.
Places find_places(const Environment& environment);

// Fails when a name is not found, is found in two places, or stands for several models. The error says where it looked
// and what is there.
Result<ModelFiles> find_model(const std::string& given, const Places& places);

struct ListedModel {
  std::string name;
  Origin origin{};
  Result<ModelFiles> files;  // or the reason why it cannot be used
};
// All models, place by place, sorted by name. A broken model is listed with its error.
std::vector<ListedModel> list_models(const Places& places);

}  // namespace sluice

// A folder of model files, as in repositories of Hugging Face and LM Studio. It is a Hugging Face directory, or has
// GGUF files of one model in several formats. Files may be split or lie in folders of their own. Towers ("mmproj") and
// other files that are no models may lie beside them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_files.h"

namespace sluice {

struct ModelFolder {
  std::string name;  // "org/repo"
  Origin origin{};
  std::string path;
  bool checkpoint = false;         // the folder itself is a model: config.json and safetensors
  std::vector<std::string> ggufs;  // paths within the folder, sorted; the first part of a split model
  std::string projector;           // likewise; the first one when it comes in several formats
  std::vector<std::string> sides;  // likewise: draft heads and importance matrices, which are no models by themselves
};

Result<ModelFolder> read_model_folder(const std::string& path, std::string name, Origin origin);

// Chooses one model. `wanted` is empty (the folder must have one model), a GGUF file's path within the folder
// ("x.gguf"), or a format at the end of its name ("Q4_K_M"). If no single model fits, the error lists the models.
Result<ModelFiles> choose_model(const ModelFolder& folder, std::string_view wanted);
// Each model with the name to choose it by.
std::vector<ModelFiles> all_models(const ModelFolder& folder);

// Parses "org/repo", "org/repo/file.gguf" and "org/repo:Q4_K_M", also after "hf.co/" or "huggingface.co/".
struct RepositoryName {
  std::string organisation, repository;
  std::string wanted;  // as choose_model takes it

  std::string text() const { return organisation + "/" + repository; }
};
// None when `given` cannot be such a name. No part of the result points outside its folder.
std::optional<RepositoryName> parse_repository_name(std::string_view given);
// Whether a name is a single folder's: letters, digits and "-_.", without slash, not beginning with a dot.
bool is_folder_name(std::string_view name);
// Of the files beside a GGUF model the one that holds a draft head (draft_file.h): one in the model's format where
// there is such, else the first by name; "": none.
std::string choose_draft_head(const std::string& gguf, const std::vector<std::string>& beside);
// Of them the one that holds the model's towers ("mmproj" is in its name): its other words, formats aside, are words of
// the model's name, the more the better. One without other words is taken where no other model lies. "": none.
std::string choose_projector(const std::string& gguf, const std::vector<std::string>& beside);

}  // namespace sluice

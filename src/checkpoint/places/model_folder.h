// A folder of model files, as in repositories of Hugging Face and LM Studio. It is a Hugging Face directory, or it has
// GGUF files of one model in several formats. GGUF files may be split and may be in subfolders. Towers ("mmproj") and
// other files that are not models may stand beside them.
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
  std::string projector;           // path of the towers; the first one if there are several formats
  std::vector<std::string> sides;  // paths of draft heads and importance matrices, which are not models
};

Result<ModelFolder> read_model_folder(const std::string& path, std::string name, Origin origin);
// The same of a repository that lies elsewhere: `paths` are its files. `towers`: gets those that hold towers.
ModelFolder model_folder_of(std::string name, const std::vector<std::string>& paths, std::vector<std::string>* towers);

// Chooses one model. `wanted` is empty (the folder must have one model), a GGUF file's path within the folder
// ("x.gguf"), or a format at the end of its name ("Q4_K_M"). If no single model fits, the error lists the models.
Result<ModelFiles> choose_model(const ModelFolder& folder, std::string_view wanted);
// Each model, with the name by which it can be chosen.
std::vector<ModelFiles> all_models(const ModelFolder& folder);

// Parses "org/repo", "org/repo/file.gguf" and "org/repo:Q4_K_M", also after "hf.co/" or "huggingface.co/".
struct RepositoryName {
  std::string organisation, repository;
  std::string wanted;  // the argument of choose_model

  std::string text() const { return organisation + "/" + repository; }
};
// None when `given` cannot be such a name. No part of the result points outside its folder.
std::optional<RepositoryName> parse_repository_name(std::string_view given);
// Whether a name can be that of a single folder: letters, digits and "-_.", no slash, no dot at the beginning.
bool is_folder_name(std::string_view name);
// Chooses the draft head (draft_file.h) or draft model among the files beside a GGUF model: one in the model's format
// if there is one, else the first by name; "": none. The name of a draft model has the word "assistant", and all its
// other words, without formats, must be words of the model's name.
std::string choose_draft_head(const std::string& gguf, const std::vector<std::string>& beside);
// Chooses the towers ("mmproj" is in the name) among the files beside a GGUF model. All other words of the file's name,
// without formats, must be words of the model's name; the file with the most such words wins. A file without other
// words is chosen if no other model stands beside it. "": none.
std::string choose_projector(const std::string& gguf, const std::vector<std::string>& beside);

}  // namespace sluice

// A folder of model files as repositories of Hugging Face and LM Studio have them: a Hugging Face directory, or GGUF
// files of one model in several formats, some of them split, some in folders of their own, with their towers
// ("mmproj") and other files that are no models beside them.
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
  std::vector<std::string> ggufs;  // paths within the folder, sorted; of a split model its first part
  std::string projector;           // the same; the first when there are several formats of it
  std::vector<std::string> sides;  // the same: draft heads, importance matrices, which are no models by themselves
};

Result<ModelFolder> read_model_folder(const std::string& path, std::string name, Origin origin);

// `wanted` is empty for the only model there is, a GGUF file's path within the folder ("x.gguf"), or a format that its
// name ends with ("Q4_K_M"). Not one model fits: a sentence that lists those there are.
Result<ModelFiles> choose_model(const ModelFolder& folder, std::string_view wanted);
// Each model with the name by which it is chosen.
std::vector<ModelFiles> all_models(const ModelFolder& folder);

// "org/repo", "org/repo/file.gguf", "org/repo:Q4_K_M", also after "hf.co/" or "huggingface.co/".
struct RepositoryName {
  std::string organisation, repository;
  std::string wanted;  // as choose_model takes it

  std::string text() const { return organisation + "/" + repository; }
};
// Nothing when `given` cannot be such a name. No part of the result leaves its folder.
std::optional<RepositoryName> parse_repository_name(std::string_view given);
// A name without slash that is one folder's: letters, digits, "-_.", not beginning with a dot.
bool is_folder_name(std::string_view name);
// Of the files beside a GGUF model the one that holds a draft head (draft_file.h): one in the model's format where
// there is such, else the first by name; "": none.
std::string choose_draft_head(const std::string& gguf, const std::vector<std::string>& beside);

}  // namespace sluice

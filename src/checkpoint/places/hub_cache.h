// The cache of the Hugging Face hub. Source: "Understand caching" of the huggingface_hub documentation.
//
//   <root>/models--<organisation>--<repository>/
//     refs/main              the commit, 40 hexadecimal digits
//     snapshots/<commit>/    the files, mostly links into blobs/, possibly only some of the repository's
//     blobs/
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/places/model_folder.h"

namespace sluice {

// The folder of a repository's snapshot: the one of refs/main, or without refs the newest. None when the cache does not
// have the repository.
std::optional<Result<std::string>> hub_snapshot(const std::string& root, const std::string& organisation,
                                                const std::string& repository);
// Organisation and repository of each model in the cache, sorted; empty without a cache.
std::vector<RepositoryName> list_hub_repositories(const std::string& root);

}  // namespace sluice

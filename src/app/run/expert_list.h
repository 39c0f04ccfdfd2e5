// The experts that a model used most when it last ran. The list is kept in the state folder, so that the next run reads
// them before they are chosen. They are hints: no answer depends on them, and a damaged list is ignored.
//
//   sluice experts 1
//   LAYER EXPERT USES     a line for each, the most used first
//   checksum HEX          of all lines before (base/checksum.h)
//
// A list is found by its model's file names and sizes, because a digest would read all weights. A list of another model
// costs no more than no list.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/options.h"

namespace sluice {

// STATE/experts/NAME for the model's files. Fails where one of them cannot be opened.
Result<std::string> expert_list_path(const std::string& state_folder, const std::vector<std::string>& model_files);
// not_found where there is none, corrupt where it is damaged.
Result<std::vector<HotExpert>> read_expert_list(const std::string& path);
// Makes the folder, too.
Status write_expert_list(const std::string& path, std::span<const HotExpert> hot);

}  // namespace sluice

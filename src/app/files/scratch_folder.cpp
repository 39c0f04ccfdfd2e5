#include "app/files/scratch_folder.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

namespace sluice {

ScratchFolder::ScratchFolder() {
  std::error_code failed;
  std::string pattern = (std::filesystem::temp_directory_path(failed) / "sluice-XXXXXX").string();
  if (!failed && ::mkdtemp(pattern.data()) != nullptr) path_ = std::move(pattern);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace sluice

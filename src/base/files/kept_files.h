// System calls, in addition to file.h, for a folder in which files are added and removed. Other processes may work in
// the same folder, so a missing file is not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace sluice {

struct FileFacts {
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // time of the last write or touch, by the system's clock
};
std::optional<FileFacts> file_facts(const std::string& path);  // none: not a regular file

int64_t system_clock_ns();
// These calls ignore errors. A file whose time cannot be set looks older than it is, and a file that cannot be removed
// stays.
void touch_file(const std::string& path, int64_t used_ns);
void remove_file(const std::string& path);
Status rename_file(const std::string& from, const std::string& to);
// Makes a folder that only its owner may read, and the missing folders above it. An existing folder stays as it is.
Status make_own_folder(const std::string& path);
// An error unless the folder belongs to the user of this process and nobody else may write to it.
Status check_own_folder(const std::string& path);

}  // namespace sluice

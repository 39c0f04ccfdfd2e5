// What a folder whose files come and go asks of the system beyond file.h. Other processes may work in the same folder:
// a file that is not there any more is no error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace sluice {

struct FileFacts {
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // when it was last written or touched, by the system's clock
};
std::optional<FileFacts> file_facts(const std::string& path);  // nothing: no regular file

int64_t system_clock_ns();
// Best effort: where a file's time cannot be set it is older than it should be, and where it cannot be removed it
// stays.
void touch_file(const std::string& path, int64_t used_ns);
void remove_file(const std::string& path);
Status rename_file(const std::string& from, const std::string& to);
// A folder that only its owner may look into, and those above it as far as they are missing. One that is there stays.
Status make_own_folder(const std::string& path);
// An error unless the folder belongs to this process's user and nobody else may write to it.
Status check_own_folder(const std::string& path);

}  // namespace sluice

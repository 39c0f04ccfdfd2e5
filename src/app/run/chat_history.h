// The lines typed in chats, kept in a file. Each entry is a line; an end of line in it is "\n", a backslash "\\".
// Several chats may run at once: each entry is appended to the current file, one chat after the other.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

inline constexpr size_t kHistoryEntries = 500;          // the oldest are dropped
inline constexpr size_t kMaxHistoryEntryBytes = 16384;  // longer ones are not kept

// Oldest first; empty if there is no such file, or a foreign one.
std::vector<std::string> read_history(const std::string& path);
// Makes a missing folder, for its owner alone.
Status add_to_history(const std::string& path, const std::string& entry);

}  // namespace sluice

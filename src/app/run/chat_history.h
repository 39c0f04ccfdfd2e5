// The lines typed in chats, kept in a file between them: one entry a line, a line's end in it as "\n", a backslash as
// "\\". Several chats may run at once: every entry is added to what the file holds by then, one chat after the other.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

inline constexpr size_t kHistoryEntries = 500;          // the oldest go
inline constexpr size_t kMaxHistoryEntryBytes = 16384;  // longer ones are not kept

// Oldest first; none when there is no such file, or when it is none of ours.
std::vector<std::string> read_history(const std::string& path);
// Makes the folder, for its owner alone, when it is missing.
Status add_to_history(const std::string& path, const std::string& entry);

}  // namespace sluice

#include "app/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr uint64_t kSmallFile = 4096;

// The folder of this process's control group (version 2): the line "0::/path" of /proc/self/cgroup.
std::string group_folder() {
  const Result<std::string> groups = read_file("/proc/self/cgroup", kSmallFile);
  if (!groups) {
    return "";
  }
  for (const std::string& line : split(*groups, '\n')) {
    if (starts_with(line, "0::")) {
      return "/sys/fs/cgroup" + line.substr(3);
    }
  }
  return "";
}

}  // namespace

std::optional<uint64_t> parse_group_limit(std::string_view text) {
  while (!text.empty() && text.back() == '\n') {
    text.remove_suffix(1);
  }
  const auto bytes = parse_integer(text);
  return bytes && *bytes > 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*bytes)) : std::nullopt;
}

uint64_t machine_memory_bytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // A limit may stand in any group above ours.
  for (std::string folder = group_folder(); starts_with(folder, "/sys/fs/cgroup");
       folder = folder.substr(0, folder.rfind('/'))) {
    const Result<std::string> text = read_file(folder + "/memory.max", kSmallFile);
    if (const auto limit = text ? parse_group_limit(*text) : std::nullopt) {
      bytes = std::min(bytes, *limit);
    }
  }
  return bytes;
}

}  // namespace sluice

#include "app/open/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"

namespace sluice {
namespace {

// A file of /proc or /sys, whose size is not known before it is read; "" where it cannot be.
std::string system_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Where a group, or one above it, may say how much memory it has.
struct GroupLimits {
  std::string root, path, file;
};

// The groups of this process by the lines of /proc/self/cgroup: "0::/path" (version 2), "4:memory:/path" (version 1).
std::vector<GroupLimits> group_limits() {
  std::vector<GroupLimits> limits;
  for (const std::string& line : split(system_file("/proc/self/cgroup"), '\n'))
    if (starts_with(line, "0::"))
      limits.push_back({"/sys/fs/cgroup", line.substr(3), "/memory.max"});
    else if (const size_t at = line.find(":memory:"); at != std::string::npos)
      limits.push_back({"/sys/fs/cgroup/memory", line.substr(at + 8), "/memory.limit_in_bytes"});
  return limits;
}

std::vector<std::string> status_lines() { return split(system_file("/proc/self/status"), '\n'); }

// The bytes in a line such as "RssAnon:     1234 kB" of /proc/self/status; 0 if there is no such line.
uint64_t status_bytes(const std::vector<std::string>& lines, std::string_view name) {
  for (const std::string& line : lines) {
    if (!starts_with(line, name) || !ends_with(line, " kB")) continue;
    const std::string number = line.substr(line.find_last_of(" \t", line.size() - 4) + 1);
    return static_cast<uint64_t>(parse_integer(number.substr(0, number.size() - 3)).value_or(0)) * 1024;
  }
  return 0;
}

}  // namespace

ResidentMemory resident_memory() {
  const std::vector<std::string> lines = status_lines();
  const uint64_t anonymous = status_bytes(lines, "RssAnon:");
  if (anonymous == 0) return {.anonymous = status_bytes(lines, "VmRSS:"), .file = 0};
  return {.anonymous = anonymous, .file = status_bytes(lines, "RssFile:")};
}

uint64_t peak_memory_bytes() {
  if (const uint64_t peak = status_bytes(status_lines(), "VmHWM:"); peak != 0) return peak;
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts in KiB
}

std::optional<uint64_t> parse_group_limit(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const auto bytes = parse_integer(text);
  return bytes && *bytes > 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*bytes)) : std::nullopt;
}

uint64_t machine_memory_bytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const GroupLimits& group : group_limits()) {
    for (std::string folder = group.root + group.path; starts_with(folder, group.root);
         folder = folder.substr(0, folder.rfind('/'))) {
      if (const auto limit = parse_group_limit(system_file(folder + group.file))) bytes = std::min(bytes, *limit);
    }
  }
  return bytes;
}

}  // namespace sluice

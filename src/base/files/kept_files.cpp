#include "base/files/kept_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "base/files/file.h"

namespace sluice {
namespace {

constexpr int64_t kSecond = 1'000'000'000;  // in ns

}  // namespace

std::optional<FileFacts> file_facts(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return FileFacts{static_cast<uint64_t>(facts.st_size), facts.st_mtim.tv_sec * kSecond + facts.st_mtim.tv_nsec};
}

int64_t system_clock_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

void touch_file(const std::string& path, int64_t used_ns) {
  const timespec time{.tv_sec = used_ns / kSecond, .tv_nsec = used_ns % kSecond};
  const std::array<timespec, 2> both = {time, time};
  static_cast<void>(::utimensat(AT_FDCWD, path.c_str(), both.data(), AT_SYMLINK_NOFOLLOW));
}

void remove_file(const std::string& path) { static_cast<void>(::unlink(path.c_str())); }

Status rename_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return system_error(from, "rename", errno);
  return {};
}

// The folder gets its mode when it is made. If the mode were set later, somebody could enter before.
Status make_own_folder(const std::string& path) {
  if (path_kind(path) == PathKind::directory) return {};
  const std::string named = path.substr(0, path.find_last_not_of('/') + 1);
  const size_t slash = named.rfind('/');
  const std::string above = slash == std::string::npos ? "" : named.substr(0, slash);
  if (!above.empty() && path_kind(above) == PathKind::missing) TRY_STATUS(make_folders(above));
  if (::mkdir(named.c_str(), S_IRWXU) == 0) return {};
  // Another process may have made it.
  return errno == EEXIST && path_kind(path) == PathKind::directory ? Status() : system_error(path, "create", errno);
}

Status check_own_folder(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return system_error(path, "look at", errno);
  if (facts.st_uid != ::geteuid())
    return error(ErrorKind::invalid, path, ": belongs to another user: want a folder of your own");
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return error(ErrorKind::invalid, path, ": others may write to it: want a folder that is yours alone (chmod 700)");
}

}  // namespace sluice

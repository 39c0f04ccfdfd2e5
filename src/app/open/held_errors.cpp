#include "app/open/held_errors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace sluice {
namespace {

constexpr size_t kMostKept = 64 << 10;  // bytes

}  // namespace

HeldErrors::HeldErrors() : kept_(::memfd_create("standard error", MFD_CLOEXEC)) {
  if (kept_ < 0) return;
  errors_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (errors_ >= 0) static_cast<void>(::dup2(kept_, STDERR_FILENO));
}

std::string HeldErrors::release() {
  std::string text;
  if (errors_ >= 0) {
    static_cast<void>(::dup2(errors_, STDERR_FILENO));
    static_cast<void>(::close(errors_));
    text.resize(kMostKept);
    const ssize_t got = ::pread(kept_, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  }
  if (kept_ >= 0) static_cast<void>(::close(kept_));
  errors_ = kept_ = -1;
  return text;
}

}  // namespace sluice

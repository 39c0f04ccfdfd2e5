#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"

namespace sluice {

namespace {

Result<std::span<const std::byte>> map_descriptor(const std::string& path, int descriptor) {
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return system_error(path, "look at", errno);
  if (!S_ISREG(facts.st_mode)) return error(ErrorKind::invalid, path, ": not a file: want a regular file");
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return std::span<const std::byte>();  // mmap refuses an empty range
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) return system_error(path, "map", errno);
  return std::span(static_cast<const std::byte*>(start), size);
}

}  // namespace

Result<Mapping> Mapping::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error(path, "open", errno);
  auto bytes = map_descriptor(path, descriptor);
  ::close(descriptor);  // the mapping holds the file by itself
  if (!bytes) return std::move(bytes).error();
  return Mapping(*bytes);
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  // mmap's pages were never writable; the cast only satisfies munmap's signature.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace sluice

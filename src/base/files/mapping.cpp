// Mapped files: opening, checking that they did not change, and finding the file at an address for a SIGBUS handler.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <functional>
#include <mutex>

#include "base/files/file.h"
#include "base/files/stored_bytes.h"

namespace sluice {

// One mapped file, in a list that the SIGBUS handler reads.
struct Mapping::File {
  File(std::unique_ptr<FileSource> opened, const struct stat& found, std::span<const std::byte> mapped);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::unique_ptr<FileSource> source;
  const std::string& path = source->path_;
  const struct stat facts;          // when it was mapped
  const int64_t mapped_at = now();  // in seconds, on the clock of files' times
  const std::span<const std::byte> bytes;
  std::atomic<File*> next{nullptr};

  static int64_t now() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec;
  }

  static std::mutex changing;
  static std::atomic<File*> first;
};

std::mutex Mapping::File::changing;
std::atomic<Mapping::File*> Mapping::File::first{nullptr};

Mapping::File::File(std::unique_ptr<FileSource> opened, const struct stat& found, std::span<const std::byte> mapped)
    : source(std::move(opened)), facts(found), bytes(mapped) {
  const std::lock_guard lock(changing);
  next = first.load();
  first = this;
}

Mapping::File::~File() {
  const std::lock_guard lock(changing);
  std::atomic<File*>* link = &first;
  while (*link != this) link = &link->load()->next;
  *link = next.load();
  // mmap's pages were never writable; the cast only satisfies munmap's signature.
  if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
}

// Takes no lock, because the thread that the signal interrupted may hold it.
const char* mapped_file_at(const void* address) {
  for (const Mapping::File* file = Mapping::File::first; file != nullptr; file = file->next) {
    const std::less<const void*> before;
    const void* const end = file->bytes.data() + file->bytes.size();
    if (!before(address, file->bytes.data()) && before(address, end)) return file->path.c_str();
  }
  return nullptr;
}

void give_back_mapped(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (mapped_file_at(bytes.data()) == nullptr || mapped_file_at(&bytes.back()) == nullptr) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(bytes.data()) % page) % page;  // the first whole page
  if (before >= bytes.size()) return;
  const std::span<const std::byte> pages = bytes.subspan(before, (bytes.size() - before) / page * page);
  // A mapping's pages were never writable; the cast only satisfies madvise's signature.
  if (!pages.empty()) ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_DONTNEED);
}

namespace {

Result<std::span<const std::byte>> map_descriptor(const std::string& path, int descriptor, struct stat& facts) {
  if (::fstat(descriptor, &facts) != 0) return system_error(path, "look at", errno);
  if (!S_ISREG(facts.st_mode)) return error(ErrorKind::invalid, path, ": not a file: want a regular file");
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return std::span<const std::byte>();  // mmap refuses an empty range
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) return system_error(path, "map", errno);
  return std::span(static_cast<const std::byte*>(start), size);
}

bool same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

}  // namespace

Result<Mapping> Mapping::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(path, "open", errno);
  std::unique_ptr<FileSource> source(new FileSource(path, descriptor, 0));
  struct stat facts{};
  TRY(const std::span<const std::byte> bytes, map_descriptor(path, descriptor, facts));
  source->size_ = bytes.size();
  return Mapping(std::make_unique<File>(std::move(source), facts, bytes));
}

Status Mapping::check_unchanged() const {
  struct stat now{};
  const struct stat& then = file_->facts;
  // The path now names another file or none, so the mapped file itself was not written to.
  if (::stat(file_->path.c_str(), &now) != 0 || now.st_dev != then.st_dev || now.st_ino != then.st_ino) return {};
  if (now.st_size == then.st_size && same_time(now.st_mtim, then.st_mtim)) return {};
  return error(ErrorKind::io, file_->path, ": was changed while it was read: want a file that nothing writes to");
}

std::string Mapping::version() const {
  constexpr int64_t kGrain = 3;  // seconds: no file system in use counts in coarser steps than two
  const struct stat& facts = file_->facts;
  const int64_t last = std::max(facts.st_mtim.tv_sec, facts.st_ctim.tv_sec);
  if (file_->mapped_at - last < kGrain) return {};  // true for a file with a time in the future, too
  return cat(facts.st_dev, ' ', facts.st_ino, ' ', facts.st_size, ' ', facts.st_mtim.tv_sec, '.', facts.st_mtim.tv_nsec,
             ' ', facts.st_ctim.tv_sec, '.', facts.st_ctim.tv_nsec);
}

StoredBytes Mapping::stored() const {
  return bytes_.empty() ? StoredBytes() : StoredBytes(StoredAt(bytes_.data(), *file_->source, 0), bytes_.size());
}

Mapping::Mapping(std::unique_ptr<File> file) : bytes_(file->bytes), file_(std::move(file)) {}
Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), file_(std::move(other.file_)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  return *this;
}

Mapping::~Mapping() = default;

}  // namespace sluice

#include "base/files/read_queue.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(SLUICE_URING)  // not defined when cross-compiling
#include <liburing.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/files/file.h"
#include "base/random.h"
#include "base/signals_blocked.h"

namespace sluice {
namespace {

constexpr uint32_t kReaders = 16;  // threads, if there is no io_uring
constexpr int kWaitMilliseconds = 20;

// Whether nearly all of a file lies in the page cache. The test reads single bytes with a request that fails if it
// needs the disk. Some systems then begin to read those pages, so each test uses other places.
bool is_cached(int file) {
  constexpr uint32_t kSamples = 64;
  struct stat facts{};
  if (::fstat(file, &facts) != 0 || facts.st_size == 0) return false;
  const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  for (uint32_t i = 0; i < kSamples; ++i) {
    const PhiloxCounter drawn =
        philox4x32({i, 0, 0, 0}, {static_cast<uint32_t>(now), static_cast<uint32_t>(now >> 32)});
    const uint64_t place = (uint64_t{drawn[0]} << 32 | drawn[1]) % static_cast<uint64_t>(facts.st_size);
    std::byte byte{};
    const iovec into{.iov_base = &byte, .iov_len = 1};
    if (::preadv2(file, &into, 1, static_cast<off_t>(place), RWF_NOWAIT) != 1) return false;
  }
  return true;
}

// Opens files for reading, past the page cache if that works for all of them. With `cached_too`, files that already lie
// in the page cache are read from there, which is many times as fast and takes no more memory.
class OpenFiles {
 public:
  static Result<OpenFiles> open(const std::vector<std::string>& paths, bool cached_too) {
    if (cached_too) {
      OpenFiles cached;
      cached.direct_ = false;
      TRY_STATUS(cached.open_all(paths, 0));
      if (std::ranges::all_of(cached.files_, is_cached)) return cached;
    }
    OpenFiles direct;
    const Status opened = direct.open_all(paths, O_DIRECT);
    if (opened) return direct;
    if (opened.error().kind != ErrorKind::unsupported) return opened.error();
    OpenFiles cached;
    cached.direct_ = false;
    TRY_STATUS(cached.open_all(paths, 0));
    return cached;
  }
  OpenFiles(OpenFiles&&) = default;
  OpenFiles& operator=(OpenFiles&&) = delete;
  ~OpenFiles() {
    for (const int file : files_) ::close(file);
  }
  int operator[](uint32_t file) const { return files_[file]; }
  bool direct() const { return direct_; }
  const char* manner() const { return direct_ ? "past the page cache" : "through the page cache"; }

 private:
  OpenFiles() = default;
  Status open_all(const std::vector<std::string>& paths, int flags) {
    files_.reserve(paths.size());
    for (const std::string& path : paths) {
      const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
      if (file >= 0) files_.push_back(file);
      // Some systems refuse to open a file with these flags, others refuse to read it.
      if (flags != 0 && ((file < 0 && errno == EINVAL) || (file >= 0 && !reads(file))))
        return error(ErrorKind::unsupported, path, ": cannot be read past the page cache");
      if (file < 0) return system_error(path, "open", errno);
    }
    return {};
  }
  static bool reads(int file) {
    alignas(kReadAlignment) static thread_local std::byte bytes[kReadAlignment];
    return ::pread(file, bytes, sizeof bytes, 0) >= 0 || errno != EINVAL;
  }

  std::vector<int> files_;
  bool direct_ = true;
};

#if defined(SLUICE_URING)
constexpr uint32_t kUringDepth = 256;

class UringQueue final : public ReadQueue {
 public:
  UringQueue() = default;
  ~UringQueue() override {
    std::vector<ReadEnd> last;
    while (under_way_ > 0) take_ended(last, true);
    if (ready_) io_uring_queue_exit(&ring_);
  }
  bool set_up() {
    ready_ = io_uring_queue_init(kUringDepth, &ring_, 0) == 0;
    return ready_;
  }
  void take_files(OpenFiles files) { files_.emplace(std::move(files)); }

  std::string description() const override { return cat("io_uring, ", files_->manner()); }
  uint32_t depth() const override { return kUringDepth; }

  void begin(const FileRead& read) override {
    CHECK(under_way_ < kUringDepth);
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    CHECK(entry != nullptr);
    io_uring_prep_read(entry, (*files_)[read.file], read.into.data(), static_cast<unsigned>(read.into.size()),
                       read.offset);
    io_uring_sqe_set_data64(entry, read.id);
    if (!files_->direct()) entry->flags |= IOSQE_ASYNC;
    ++under_way_;
    io_uring_submit(&ring_);  // requests that the kernel does not accept now go with the next call
  }

  void take_ended(std::vector<ReadEnd>& ended, bool wait) override {
    io_uring_submit(&ring_);
    io_uring_cqe* entry = nullptr;
    if (wait && under_way_ > 0) {
      __kernel_timespec time{.tv_sec = 0, .tv_nsec = kWaitMilliseconds * 1'000'000};
      io_uring_wait_cqe_timeout(&ring_, &entry, &time);
    }
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      ended.push_back({.id = io_uring_cqe_get_data64(entry), .bytes = entry->res});
      io_uring_cqe_seen(&ring_, entry);
      --under_way_;
    }
  }

 private:
  std::optional<OpenFiles> files_;
  io_uring ring_{};
  bool ready_ = false;
  uint32_t under_way_ = 0;
};

// Null if the kernel has no io_uring or refuses it, as in many containers.
std::unique_ptr<ReadQueue> make_uring_queue(OpenFiles& files) {
  auto queue = std::make_unique<UringQueue>();
  if (!queue->set_up()) return nullptr;
  queue->take_files(std::move(files));
  return queue;
}
#else
std::unique_ptr<ReadQueue> make_uring_queue(OpenFiles&) { return nullptr; }
#endif

class ThreadQueue final : public ReadQueue {
 public:
  explicit ThreadQueue(OpenFiles files) : files_(std::move(files)) {
    const SignalsBlocked blocked;
    readers_.reserve(kReaders);
    for (uint32_t i = 0; i < kReaders; ++i) readers_.emplace_back([this] { work(); });
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      waiting_.clear();
    }
    has_work_.notify_all();
    for (std::thread& reader : readers_) reader.join();
  }

  std::string description() const override { return cat("reading threads, ", files_.manner()); }
  uint32_t depth() const override { return kReaders; }

  void begin(const FileRead& read) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(read);
      ++under_way_;
    }
    has_work_.notify_one();
  }

  void take_ended(std::vector<ReadEnd>& ended, bool wait) override {
    std::unique_lock lock(mutex_);
    if (wait && under_way_ > 0)
      has_end_.wait_for(lock, std::chrono::milliseconds(kWaitMilliseconds), [&] { return !ended_.empty(); });
    under_way_ -= ended_.size();
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  void work() {
    for (std::unique_lock lock(mutex_);;) {
      has_work_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const FileRead read = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const ssize_t got =
          ::pread(files_[read.file], read.into.data(), read.into.size(), static_cast<off_t>(read.offset));
      const ReadEnd end{.id = read.id, .bytes = got < 0 ? -int64_t{errno} : int64_t{got}};
      lock.lock();
      ended_.push_back(end);
      has_end_.notify_one();
    }
  }

  OpenFiles files_;
  std::mutex mutex_;
  std::condition_variable has_work_, has_end_;
  std::deque<FileRead> waiting_;
  std::vector<ReadEnd> ended_;
  size_t under_way_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> open_read_queue(const std::vector<std::string>& paths, ReadMethod method) {
  TRY(OpenFiles files, OpenFiles::open(paths, method == ReadMethod::best));
  if (method != ReadMethod::threads) {
    if (std::unique_ptr<ReadQueue> queue = make_uring_queue(files)) return queue;
    if (method == ReadMethod::uring) return error(ErrorKind::unsupported, "io_uring: this system gives none");
  }
  return std::unique_ptr<ReadQueue>(std::make_unique<ThreadQueue>(std::move(files)));
}

}  // namespace sluice

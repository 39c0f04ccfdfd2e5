// A download in progress. "<path>.part" has the bytes so far, and "<path>.part.json" describes the whole, so that a
// later process can continue. Renaming gives the finished name, once everything is checked and on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace sluice {

// The download to which a part belongs.
struct PartNote {
  std::string url;
  std::string validator;          // the ETag or date that the server gave; "": none
  std::optional<uint64_t> total;  // bytes of the whole, when the server said it
};

class PartFile {
 public:
  // Opens an existing part or begins a new one, and locks out other processes. A lock belongs to a file, not to its
  // name. If the file has been renamed or removed when the lock is taken, it is left alone. `before_lock` is for tests:
  // the action of another process between opening and locking.
  static Result<PartFile> open(const std::string& path, const std::function<void()>& before_lock = {});
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  // Keeps the bytes so far for the next time, if there are any.
  ~PartFile();

  uint64_t size() const { return size_; }
  const PartNote& note() const { return note_; }  // empty when there was none
  const std::string& part_path() const { return part_; }

  Status restart(const PartNote& note);  // drops the bytes so far
  Status append(std::span<const std::byte> bytes);
  Status commit();
  void discard();  // removes the part and its note

 private:
  PartFile(std::string path, int descriptor);

  std::string path_, part_, note_path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  PartNote note_;
};

}  // namespace sluice

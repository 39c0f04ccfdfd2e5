// A download on its way: what has come lies in "<path>.part", and "<path>.part.json" says of what it is a part, so that
// a later process can go on. The finished name appears by renaming, once everything is checked and on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace sluice {

// What a part is a part of.
struct PartNote {
  std::string url;
  std::string validator;          // the ETag or date that the server gave; "": none
  std::optional<uint64_t> total;  // bytes of the whole, when the server said it
};

class PartFile {
 public:
  // Opens what is there or begins anew, and keeps other processes out. A lock is on a file, not on its name: by the
  // time it is taken the file may have got its finished name, or none, and is left alone then. `before_lock` is for
  // tests: what another process does between opening and locking.
  static Result<PartFile> open(const std::string& path, const std::function<void()>& before_lock = {});
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  // Leaves what has come where it is, for the next time; nothing when that is nothing.
  ~PartFile();

  uint64_t size() const { return size_; }
  const PartNote& note() const { return note_; }  // empty when there was none
  const std::string& part_path() const { return part_; }

  Status restart(const PartNote& note);  // drops what has come
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

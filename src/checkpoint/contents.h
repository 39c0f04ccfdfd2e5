// A digest of a checkpoint's tensors in 32 hexadecimal digits. It changes when a byte of a tensor, a name, a format or
// a shape changes. It uses XXH3 (base/checksum.h), which is not cryptographic: models differ by accident only.
//
// Computing the digest reads all files, at the speed of the disk. A ContentsMemory therefore keeps digests by the
// version of the files (Mapping::version). In a web page files have no versions, so each opened model is digested anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"

namespace sluice {

// A store of digests that lasts from one run to the next. Its entries are trusted: with a wrong entry, one model would
// be taken for another.
class ContentsMemory {
 public:
  virtual ~ContentsMemory() = default;
  virtual std::optional<std::string> find(const std::string& version) = 0;
  virtual void keep(const std::string& version, const std::string& contents) = 0;
  // Called while files are read, and at the end.
  virtual void reading(uint64_t done, uint64_t all) = 0;
};

// `memory` may be null.
std::string contents_of(const Checkpoint& checkpoint, ContentsMemory* memory);

}  // namespace sluice

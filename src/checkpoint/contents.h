// What a checkpoint's tensors hold, in 32 hexadecimal digits that differ when one byte of one tensor does, or a name, a
// format or a shape. XXH3 (base/checksum.h): models differ by chance, nobody forges one.
//
// All files are read for it, which takes as long as the disk does: so a ContentsMemory keeps the digits by the version
// of the files (Mapping::version). In a page files have no versions, and the digits are made anew for each opened
// model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"

namespace sluice {

// From one run to the next. What it says is believed: a wrong answer makes a model pass for another.
class ContentsMemory {
 public:
  virtual ~ContentsMemory() = default;
  virtual std::optional<std::string> find(const std::string& version) = 0;
  virtual void keep(const std::string& version, const std::string& contents) = 0;
  // While files are read, and at the end.
  virtual void reading(uint64_t done, uint64_t all) = 0;
};

// `memory`: null for none.
std::string contents_of(const Checkpoint& checkpoint, ContentsMemory* memory);

}  // namespace sluice

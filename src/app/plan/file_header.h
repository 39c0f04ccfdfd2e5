// A model of which only the beginning of its GGUF file exists, as before a download. It has everything from the header,
// and zeros in place of tensors.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace sluice {

struct HeaderOnly {
  Checkpoint checkpoint;
  const std::byte* zeros = nullptr;  // the address at which the file's first byte would be mapped
};
// None if `path` is no GGUF file, or a complete one.
Result<std::optional<HeaderOnly>> open_header(const std::string& path);

}  // namespace sluice

// A model of which only the beginning of its GGUF file is here, as it is before a download: everything that the header
// says, and zeros where tensors would lie.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace sluice {

struct HeaderOnly {
  Checkpoint checkpoint;
  const std::byte* zeros = nullptr;  // where the file's first byte would be mapped
};
// None where `path` is no GGUF file, or a whole one.
Result<std::optional<HeaderOnly>> open_header(const std::string& path);

}  // namespace sluice

// A tensor as a file's header describes it. The parsers of GGUF and safetensors return it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/format.h"

namespace sluice {

struct TensorEntry {
  std::string name;
  Format format{};
  std::vector<int64_t> shape;  // outermost first
  uint64_t offset = 0;         // from the beginning of the file
  uint64_t bytes = 0;          // offset + bytes lies within the file
};

}  // namespace sluice

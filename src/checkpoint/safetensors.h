// Reads the header of a safetensors file. Source: the format page of huggingface/safetensors, whose reference reader's
// rules are kept: offsets contiguous from 0 to the end of the file, sizes that follow from shape and dtype.
//
//   u64 bytes of the header | the header, JSON | data
//   {"name": {"dtype": "BF16", "shape": [4, 2], "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "value"}}
//
// The header need not be padded, so tensors may begin at odd addresses.
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/result.h"
#include "checkpoint/tensor_entry.h"

namespace sluice {

// Tensors in the order of their offsets. `where` begins every error. Every tensor lies within `source`.
Result<std::vector<TensorEntry>> parse_safetensors(const ByteSource& source, const std::string& where);

}  // namespace sluice

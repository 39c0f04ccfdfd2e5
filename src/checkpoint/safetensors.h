// Reads the header of a safetensors file. Source: the format page of huggingface/safetensors. The rules of its
// reference reader hold here: offsets are contiguous from 0 to the end of the file, and sizes follow from shape and
// dtype.
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

// Tensors in the order of their offsets. Every error begins with `where`. Every tensor lies within `source`.
Result<std::vector<TensorEntry>> parse_safetensors(const ByteSource& source, const std::string& where);

}  // namespace sluice

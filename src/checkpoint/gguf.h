// Reads the header of a GGUF v3 (or v2, whose layout is the same) file: keys, tensor infos. Source: the layout of
// ggml/include/gguf.h; stricter than ggml where that accepts products that wrap around.
//
//   magic "GGUF" | u32 version | i64 tensors | i64 keys
//   keys:    string name | u32 type | value
//   infos:   string name | u32 dimensions | i64 dimension[], innermost first | i32 type | u64 offset in the data
//   zeros to a multiple of the alignment, then the tensors in the order of the infos, each start aligned
//
// string: u64 bytes, then those bytes. array: u32 element type, u64 count, elements. All little-endian.
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "checkpoint/tensor_entry.h"

namespace sluice {

struct GgufHeader {
  GgufMetadata metadata;
  std::vector<TensorEntry> tensors;
};

// Every error begins with `where`: "model.gguf". Every tensor of the result lies within `source`.
Result<GgufHeader> parse_gguf(const ByteSource& source, const std::string& where);

}  // namespace sluice

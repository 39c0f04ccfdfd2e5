// Models split over several GGUF files, with the names and keys of llama.cpp's gguf-split and gguf-py:
//
//   name               prefix-00001-of-00003.gguf, numbered from 1
//   split.no           u16, numbered from 0
//   split.count        u16; 0 or 1: the file is whole (merging leaves 0 behind)
//   split.tensors.count  i32, of all parts together
//   sluice.split.id    string, Sluice's own key: the same in all parts of a set, "3-" and a digest of all 3 parts.
//                      Sets of other programs have no such key. If another program merges a set and splits it
//                      again, only the first part keeps it, and it is ignored if the number of parts has changed.
//
// The first part carries the model's keys and may hold no tensor. Every part is a GGUF file of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "checkpoint/tensor_entry.h"

namespace sluice {

// A path with the name of a part: "models/m-00002-of-00003.gguf" is part 2 of 3 of "models/m".
struct SplitName {
  std::string prefix;
  uint32_t number = 0;  // from 1
  uint32_t count = 0;   // at least `number`

  std::string path() const;
  // The path of another part of the same model.
  std::string path(uint32_t of_number) const { return SplitName{prefix, of_number, count}.path(); }
};
std::optional<SplitName> parse_split_name(std::string_view path);

struct GgufPart {
  std::string path;
  std::vector<TensorEntry> tensors;
};

struct GgufParts {
  GgufMetadata metadata;  // of the first part
  std::vector<GgufPart> parts;
};

// The limits of one part; 0: no limit.
struct SplitLimits {
  uint64_t bytes = 0;  // of tensor data
  uint64_t tensors = 0;
};
// The number of tensors in each part, for tensors of these sizes in this order. Each part gets at least one tensor,
// even if that tensor exceeds the limit.
std::vector<size_t> split_tensors(const std::vector<uint64_t>& bytes, const SplitLimits& limits);
// The keys for this part of a model with `tensors` tensors. The id does not contain a digest yet.
std::vector<GgufMetadata::Entry> split_keys(const SplitName& part, size_t tensors);
inline constexpr std::string_view kSplitIdKey = "sluice.split.id";
// The id of a set with `parts` parts. Its length does not depend on the digest.
std::string split_id(size_t parts, const ChecksumValue& digest);

// The headers of a GGUF file and, for a split model, of all other parts. Any part may be given.
Result<GgufParts> read_gguf_parts(const std::string& path);

}  // namespace sluice

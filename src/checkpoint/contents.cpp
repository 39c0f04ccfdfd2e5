#include "checkpoint/contents.h"

#include <algorithm>

#include "base/checksum.h"

namespace sluice {
namespace {

constexpr uint64_t kPieceBytes = 4 << 20;

// By pieces in memory of its own, so that reading a whole model does not count against --memory.
void add_tensor(Checksum& sum, const StoredTensor& tensor, const auto& read) {
  const std::string about =
      cat(tensor.name.size(), ' ', tensor.name, ' ', format_name(tensor.format), ' ', format_shape(tensor.shape), '\n');
  sum.add(std::as_bytes(std::span(about)));
  std::vector<std::byte> room;
  StoredAt at = tensor.bytes.data();
  for (uint64_t left = tensor.bytes.size(); left > 0;) {
    const uint64_t count = std::min(left, kPieceBytes);
    sum.add(std::span(at.fetch(count, room), static_cast<size_t>(count)));
    at += count;
    left -= count;
    read(count);
  }
}

}  // namespace

std::string contents_of(const Checkpoint& checkpoint, ContentsMemory* memory) {
  const std::string version = memory == nullptr ? "" : checkpoint.version();
  if (!version.empty()) {
    if (std::optional<std::string> known = memory->find(version)) return *std::move(known);
  }
  uint64_t all = 0, done = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) all += tensor.bytes.size();
  Checksum sum;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    add_tensor(sum, tensor, [&](uint64_t bytes) {
      done += bytes;
      if (memory != nullptr) memory->reading(done, all);
    });
  }
  std::string contents = hex_of(sum.value());
  // If a file changed while it was read, the digest belongs to no version of it and is not kept.
  if (!version.empty() && checkpoint.check_unchanged()) memory->keep(version, contents);
  return contents;
}

}  // namespace sluice

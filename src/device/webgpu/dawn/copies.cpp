#include "device/webgpu/dawn/copies.h"

#include <algorithm>

namespace sluice::webgpu {
namespace {

constexpr uint32_t kMostThreads = 4;
constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr size_t kLargeBytes = 2 * kPieceBytes;  // takes a thread some 25 us

}  // namespace

void Copies::copy(std::span<const CopiedBytes> all) {
  pieces_.clear();
  size_t bytes = 0;
  for (const CopiedBytes& one : all) {
    bytes += one.bytes;
    for (size_t at = 0; at < one.bytes; at += kPieceBytes)
      pieces_.push_back({.from = one.from + at, .to = one.to + at, .bytes = std::min(kPieceBytes, one.bytes - at)});
  }
  const auto copy_some = [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i) std::copy_n(pieces_[i].from, pieces_[i].bytes, pieces_[i].to);
  };
  if (bytes < kLargeBytes) return copy_some({.first = 0, .last = pieces_.size()});
  if (!pool_) pool_ = std::make_unique<ThreadPool>(std::min(available_processors(), kMostThreads));
  pool_->parallel(pieces_.size(), 0, copy_some);
}

}  // namespace sluice::webgpu

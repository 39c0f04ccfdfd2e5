#include "device/cpu/packing.h"

#include <algorithm>
#include <cstring>

namespace sluice::cpu {
namespace {

constexpr size_t kWord = 4;

void pack_block(const BlockPacking& packing, const std::byte* const (&rows)[kPanelOutputs], size_t at, std::byte* to) {
  const size_t words = packing.bytes / kWord, rest = packing.bytes % kWord;
  const size_t rest_at = packing.words_at == 0 ? words * kWord : 0;
  std::byte* rest_to = to + words * kWord * kPanelOutputs;
  for (size_t l = 0; l < kPanelOutputs; ++l) {
    const std::byte* block = rows[l] + at;
    for (size_t w = 0; w < words; ++w)
      std::memcpy(to + (w * kPanelOutputs + l) * kWord, block + packing.words_at + packing.order[w] * kWord, kWord);
    std::memcpy(rest_to + l * rest, block + rest_at, rest);
  }
}

}  // namespace

void pack_panels(const PackArgs& args, uint64_t first, uint64_t last) {
  for (uint64_t panel = first; panel < last; ++panel) {
    const std::byte* rows[kPanelOutputs];
    for (uint64_t l = 0; l < kPanelOutputs; ++l)
      rows[l] = args.from + (std::min(panel * kPanelOutputs + l, args.rows - 1) - args.first_row) * args.from_stride;
    std::byte* to = args.to + panel * kPanelOutputs * args.stored_row;
    for (uint64_t at = 0; at < args.stored_row; at += args.packing.bytes)
      pack_block(args.packing, rows, at, to + at * kPanelOutputs);
  }
}

}  // namespace sluice::cpu

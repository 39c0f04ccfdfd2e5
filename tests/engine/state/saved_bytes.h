// Saved sequences whose bytes were changed, with checksums that fit them: what remains to be refused is what they say.
#pragma once

#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/limits.h"
#include "engine/state/save.h"

namespace sluice {

// As far as the header says where checksums belong; see save.h for the layout.
inline std::vector<std::byte> with_checksums(std::vector<std::byte> bytes) {
  SavedLengths lengths{};
  if (bytes.size() < sizeof lengths) return bytes;
  std::memcpy(&lengths, bytes.data(), sizeof lengths);
  const uint64_t groups_at = sizeof lengths + uint64_t{lengths.digest_bytes} + lengths.numerics_bytes;
  const uint64_t groups_end = groups_at + uint64_t{lengths.groups} * sizeof(SavedPages);
  const uint64_t sums_bytes = (uint64_t{lengths.groups} + 1) * kChecksumBytes;
  if (lengths.groups > kMaxSavedGroups || groups_end + sums_bytes > bytes.size()) return bytes;
  std::vector<SavedPages> groups(lengths.groups);
  if (!groups.empty()) std::memcpy(groups.data(), bytes.data() + groups_at, groups.size() * sizeof(SavedPages));
  const uint64_t sums_at = bytes.size() - sums_bytes;
  uint64_t end = sums_at;
  for (size_t g = groups.size(); g-- > 0;) {
    const CheckedSize pages = CheckedSize(groups[g].page_bytes) * groups[g].count;
    if (!pages.fits(end)) return bytes;
    end -= *pages.value();
    Checksum sum;
    sum.add(std::span(bytes).subspan(end, *pages.value()));
    const ChecksumValue value = sum.value();
    std::memcpy(bytes.data() + sums_at + g * kChecksumBytes, value.data(), value.size());
  }
  Checksum all;
  all.add(std::span(bytes).first(end));
  all.add(std::span(bytes).subspan(sums_at, sums_bytes - kChecksumBytes));
  const ChecksumValue value = all.value();
  std::memcpy(bytes.data() + bytes.size() - kChecksumBytes, value.data(), value.size());
  return bytes;
}

}  // namespace sluice

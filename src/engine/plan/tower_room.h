// The memory that pictures and sounds take beside the text, computed before anything is loaded. Towers are placed one
// at a time (media/media.h), each for its largest picture or sound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "model/model.h"

namespace sluice {

struct TowerRoom {
  ProgramKind kind{};
  uint32_t rows = 0;                // of the largest picture or sound
  std::vector<MemoryLine> lines{};  // of the tower, with room for a step
  uint64_t kept = 0;                // bytes in the host's memory for the inputs and rows of one picture or sound

  uint64_t bytes(Domain domain) const;  // of the tower, and in the host's memory of one picture or sound
};
// One for each whole tower of the model.
Result<std::vector<TowerRoom>> tower_rooms(const Model& model, const Device& device, Arithmetic arithmetic,
                                           const PictureOptions& pictures = {});

// For that many pictures and sounds: the largest tower among theirs in each domain, and the inputs and rows of all.
struct MediaCounts {
  uint32_t pictures = 1, sounds = 1;
};
std::vector<MemoryLine> media_memory(std::span<const TowerRoom> rooms, const MediaCounts& counts = {});

}  // namespace sluice

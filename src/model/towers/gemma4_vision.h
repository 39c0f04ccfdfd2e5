// Gemma 4's vision tower: all sizes but 12B. Declared for families/gemma4.cpp; gemma4_vision.cpp says what it is.
#pragma once

#include <optional>

#include "model/family.h"

namespace sluice::gemma4 {

// None where the checkpoint's configuration names no such tower. `hidden`: width of the text.
std::optional<FamilyProgram> vision_tower(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice::gemma4

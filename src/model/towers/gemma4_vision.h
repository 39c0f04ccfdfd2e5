// Gemma 4's vision tower: all sizes but 12B. Declared for families/gemma4.cpp; gemma4_vision.cpp describes it.
#pragma once

#include <optional>

#include "model/family.h"

namespace sluice::gemma4 {

// None if the checkpoint's configuration has no such tower. `hidden` is the width of the text's rows.
std::optional<FamilyProgram> vision_tower(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice::gemma4

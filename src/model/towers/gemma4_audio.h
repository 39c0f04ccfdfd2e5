// Gemma 4's audio tower: E2B and E4B. Declared for families/gemma4.cpp; gemma4_audio.cpp says what it is.
#pragma once

#include <optional>

#include "model/family.h"

namespace sluice::gemma4 {

// None where the checkpoint's configuration names no such tower. `hidden`: width of the text.
std::optional<FamilyProgram> audio_tower(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice::gemma4

// Gemma 4's audio tower: E2B and E4B. Declared for families/gemma4.cpp; gemma4_audio.cpp describes it.
#pragma once

#include <optional>

#include "model/family.h"

namespace sluice::gemma4 {

// None if the checkpoint's configuration has no such tower. `hidden` is the width of the text's rows.
std::optional<FamilyProgram> audio_tower(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice::gemma4

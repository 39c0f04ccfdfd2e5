// What Gemma 4's unified form (12B) has in the place of towers. Declared for families/gemma4.cpp; gemma4_unified.cpp
// says what it is.
#pragma once

#include <vector>

#include "model/family.h"

namespace sluice::gemma4 {

// None where the checkpoint's configuration is of another form. `hidden`: width of the text.
std::vector<FamilyProgram> unified_towers(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice::gemma4

// The programs that Gemma 4's unified form (12B) has in place of towers. Declared for families/gemma4.cpp;
// gemma4_unified.cpp describes them.
#pragma once

#include <vector>

#include "model/family.h"

namespace sluice::gemma4 {

// None if the checkpoint has another form. `hidden` is the width of the text's rows.
std::vector<FamilyProgram> unified_towers(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice::gemma4

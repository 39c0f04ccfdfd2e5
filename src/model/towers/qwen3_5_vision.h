// Qwen3.5's and Qwen3.6's vision tower.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "model/family.h"

namespace sluice::qwen3_5 {

// The tower's program, which also prepares pictures and films; none if the checkpoint's configuration has no such
// tower. `architecture` begins GGUF keys; text_hidden is the width of the text's rows.
std::optional<FamilyProgram> vision_program(const Checkpoint& checkpoint, const SourceNames& names,
                                            const char* architecture, uint32_t text_hidden);

}  // namespace sluice::qwen3_5

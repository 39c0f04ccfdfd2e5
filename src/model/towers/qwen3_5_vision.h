// Qwen3.5's and Qwen3.6's vision tower.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "model/family.h"

namespace sluice::qwen3_5 {

// The tower's program, and how its pictures and films are prepared; nothing where the checkpoint's configuration names
// none. `architecture` begins GGUF keys; text_hidden is the width of the text's rows.
std::optional<FamilyProgram> vision_program(const Checkpoint& checkpoint, const SourceNames& names,
                                            const char* architecture, uint32_t text_hidden);

}  // namespace sluice::qwen3_5

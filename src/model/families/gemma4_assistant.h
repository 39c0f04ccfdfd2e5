// The small model that drafts for a Gemma 4, which its makers call its assistant: a folder or a file of its own.
//
// Its layers have no keys and values. They read those of the text model's last sliding and last full layer. Its query
// stands behind the last of them: all guesses are made there, each from the last token and the hidden row before it.
// Sources: transformers modeling_gemma4_assistant.py (5.17.0), and llama.cpp (gemma4-assistant) for GGUF names.
#pragma once

#include "base/result.h"
#include "model/families/gemma4_config.h"
#include "model/family.h"

namespace sluice::gemma4 {

// Outputs of the text program and inputs of the assistant's: keys after norm and rope, values after their norm.
inline const char* shared_keys(bool sliding) { return sliding ? "sliding.k" : "full.k"; }
inline const char* shared_values(bool sliding) { return sliding ? "sliding.v" : "full.v"; }

// Reads and checks an assistant of the text model with this configuration. Fails with one sentence when it is none, or
// one of another model.
Result<FamilyProgram> read_assistant(const Checkpoint& checkpoint, const SourceNames& names, const Config& text);

}  // namespace sluice::gemma4

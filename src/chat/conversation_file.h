// Conversations in files. FILE is a readable JSON object. FILE.state is the engine's computed state, so that the next
// turn computes only new tokens; without it the state is computed again. FILE.media holds the pictures, sounds and
// films that messages show (saved_media.h).
//
//   {"sluice_conversation": 2, or 3 with media, "model": {"name", "digest"}, "raw", "system", "think", "max_tokens",
//    "stop": [], "sampling": {}, "messages": [{"role", "content", "thinking", "history", "media"}...], "state":
//    checksum of FILE.state or null}
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"
#include "model/model.h"

namespace sluice {

// `model_name` is for people who read the file; the model's digest decides.
Status save_conversation(Conversation& conversation, const Model& model, const std::string& model_name,
                         const std::string& path);
// A wrong model, a damaged file and a foreign file are errors that leave the conversation unchanged. `note` is a
// sentence if everything must be computed again, else empty. `prepare` opens media; without it they are an error.
Status load_conversation(Conversation& conversation, const Model& model, const std::string& path, std::string* note,
                         const MediaPreparer& prepare = {});

// Parses objects with "role", "content" and perhaps "thinking". Errors begin with `where`.
Result<std::vector<ChatMessage>> read_messages(const Json& list, const std::string& where);

}  // namespace sluice

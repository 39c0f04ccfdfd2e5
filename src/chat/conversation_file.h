// Conversations in files: FILE, a JSON object that anybody can read, and FILE.state, what the engine has computed of
// it, so that the next turn computes only what is new. FILE alone is enough: the state is then computed again.
//
//   {"sluice_conversation": 2, "model": {"name", "digest"}, "raw", "system", "think", "max_tokens", "stop": [],
//    "sampling": {}, "messages": [{"role", "content", "thinking", "history"}...], "state": checksum of FILE.state or
//    null}
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"
#include "model/model.h"

namespace sluice {

// `model_name` is for whoever reads the file; the model's digest decides.
Status save_conversation(Conversation& conversation, const Model& model, const std::string& model_name,
                         const std::string& path);
// A wrong model and a file that is damaged or none of ours are errors that leave the conversation as it was. `note` is
// a sentence when all must be computed again, else empty.
Status load_conversation(Conversation& conversation, const Model& model, const std::string& path, std::string* note);

// Objects with "role", "content" and perhaps "thinking". `where` begins the sentence about one that is not.
Result<std::vector<ChatMessage>> read_messages(const Json& list, const std::string& where);

}  // namespace sluice

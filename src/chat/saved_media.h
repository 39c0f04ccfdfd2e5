// Pictures, sounds and films of a saved conversation. Their files are copied, as they are, into a folder beside the
// conversation's file. A copy is named by its SHA-256, so a file shown twice is kept once, and a damaged copy is found.
// A message lists what it shows:
//
//   "media": [{"kind": "picture" | "sound" | "film", "name": "photo.jpg", "file": SHA-256, "image_tokens": limit}...]
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/media_parts.h"
#include "chat/media_source.h"
#include "model/model.h"

namespace sluice {

// FILE.media of a conversation's FILE.
std::string media_folder(const std::string& conversation_path);

// Copies the files of `media` into the folder and makes it. Fails where pixels came without a file, or a film has
// changed since it was shown.
Status save_media(const std::vector<PreparedMedia>& media, const std::string& folder);
Json media_json(const std::vector<PreparedMedia>& media);

// The files of a message's list, prepared. Errors begin with `where` or the file's path.
Result<std::vector<PreparedMedia>> load_media(const Json& list, const std::string& folder, const std::string& where,
                                              const Model& model, const MediaPreparer& prepare);

}  // namespace sluice

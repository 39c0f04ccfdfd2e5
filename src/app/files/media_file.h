// Pictures, sounds and films in files, decoded and prepared for a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/media_parts.h"
#include "chat/media_source.h"
#include "media/picture.h"
#include "media/sound.h"
#include "model/model.h"

namespace sluice {

// Errors begin with the path.
Result<Picture> read_picture(const std::string& path);
Result<Sound> read_sound(const std::string& path);
// Either, by what the file begins with.
Result<PreparedMedia> open_media(const Model& model, const std::string& path, const PictureOptions& options = {});

// What a file is, by what it begins with; none of a file that is something else or cannot be read.
std::optional<MediaKind> media_kind(const std::string& path);
// A file of that kind with its source: one element, or all steps of a film.
Result<std::vector<PreparedMedia>> open_media(const Model& model, const std::string& path, MediaKind kind,
                                              const PictureOptions& options);
// A MediaPreparer (chat/media_source.h).
Result<std::vector<PreparedMedia>> prepare_source(const Model& model, MediaSource source);

}  // namespace sluice

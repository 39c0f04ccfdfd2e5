// Pictures and sounds in files, decoded and prepared for a model.
#pragma once

#include <string>

#include "base/result.h"
#include "chat/media_parts.h"
#include "media/picture.h"
#include "media/sound.h"
#include "model/model.h"

namespace sluice {

// Errors begin with the path.
Result<Picture> read_picture(const std::string& path);
Result<Sound> read_sound(const std::string& path);
// Either, by what the file begins with.
Result<PreparedMedia> open_media(const Model& model, const std::string& path, const PictureOptions& options = {});
Result<PreparedMedia> open_picture(const Model& model, const std::string& path, const PictureOptions& options = {});
Result<PreparedMedia> open_sound(const Model& model, const std::string& path);

}  // namespace sluice

// Pictures and sounds of a conversation: prepared once for the model's towers, and put where a template wrote their
// places. Files are decoded elsewhere (src/media), because a page lets the browser decode.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "media/picture.h"
#include "media/sound.h"
#include "model/model.h"

namespace sluice {

// One picture or sound. Cheap to copy.
struct PreparedMedia {
  MediaInput input;  // named by the digest of what its tower takes
  MediaShape shape;
  TowerTokens tokens;
  std::string label = {};  // for people: a file's name

  uint32_t rows() const { return input.inputs->rows; }
};
Result<PreparedMedia> prepare_media(const Model& model, const Picture& picture, const PictureOptions& options = {});
Result<PreparedMedia> prepare_media(const Model& model, const Sound& sound);
// Frames of a film in their order. Each result is what the model takes at once: one frame, or several.
Result<std::vector<PreparedMedia>> prepare_film(const Model& model, std::span<const Picture> frames);

// Ids in which every picture and sound has as many tokens as rows.
struct PlacedMedia {
  std::vector<int32_t> ids;
  std::vector<MediaSpan> spans;
};
// `ids` have one token in the place of each, as templates write it, some with the tokens around it. The numbers of both
// must agree.
Result<PlacedMedia> place_media(const std::vector<int32_t>& ids, const std::vector<PreparedMedia>& media);
// `ids` have all tokens already, as a golden's do: a run of a picture's tokens is the next picture.
Result<std::vector<MediaSpan>> find_media(const std::vector<int32_t>& ids, const std::vector<PreparedMedia>& media);

// A message's text in which "<image>" and "<audio>" say where its pictures and sounds stand, as templates take it: a
// list of parts. What no marker names comes before the text.
Json content_parts(const std::string& text, const std::vector<PreparedMedia>& media);

}  // namespace sluice

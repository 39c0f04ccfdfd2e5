// Pictures, sounds and films of a conversation: prepared once for the model's towers, and put where a template wrote
// their places. Files are decoded elsewhere (src/media), because a page lets the browser decode.
//
// A film is several elements, its steps. A template writes one place for a film; expand_films() makes it one place for
// each step, with the step's time before it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/media_source.h"
#include "engine/engine.h"
#include "media/picture.h"
#include "media/sound.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace sluice {

// A step of a film.
struct FilmStep {
  uint32_t number = 0;  // from 0 in each film
  std::string stamp;    // the text before its rows
};

// One picture, one sound or one step of a film. Cheap to copy.
struct PreparedMedia {
  MediaInput input;  // named by the digest of what its tower takes
  MediaShape shape;
  TowerTokens tokens;
  std::string label = {};                          // for people: a file's name
  std::optional<FilmStep> film = {};               // set for a step of a film
  std::shared_ptr<const MediaSource> source = {};  // null for pixels and samples that no file has

  uint32_t rows() const { return input.inputs->rows; }
  // False for later steps of a film, which are a part of their first.
  bool is_first() const { return !film || film->number == 0; }
};
Result<PreparedMedia> prepare_media(const Model& model, const Picture& picture, const PictureOptions& options = {});
Result<PreparedMedia> prepare_media(const Model& model, const Sound& sound);

// Prepares a film frame by frame. No more frames lie in memory than make one step of the tower.
class FilmPreparer {
 public:
  // `model` outlives it and has a vision tower. `frames`: how many will be added.
  FilmPreparer(const Model& model, uint32_t frames) : model_(&model), options_{.frames = frames} {}
  // `seconds`: when the frame is shown.
  Status add(Picture frame, double seconds);
  Result<std::vector<PreparedMedia>> finish();

 private:
  Status end_step();

  const Model* model_;
  FilmOptions options_;
  std::vector<Picture> frames_;  // of the next step
  std::vector<double> seconds_;
  std::vector<PreparedMedia> steps_;
};
// All frames at once, shown `rate` a second.
Result<std::vector<PreparedMedia>> prepare_film(const Model& model, std::span<const Picture> frames, double rate = 1);

// A rendered prompt in which every film's place has become its steps: their times, and a place for the rows of each.
Result<std::string> expand_films(std::string text, const std::vector<PreparedMedia>& media, const Tokenizer& tokenizer);

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

// A message's text in which "<image>", "<audio>" and "<video>" say where its pictures, sounds and films stand, as
// templates take it: a list of parts. What no marker names comes before the text.
Json content_parts(const std::string& text, const std::vector<PreparedMedia>& media);

}  // namespace sluice

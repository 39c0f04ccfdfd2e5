// The inputs and outputs of towers. A tower is a program that turns one picture or one sound into rows that stand in
// the place of tokens.
//
// One step of a tower computes one picture or one sound. Row extents are multiples of Symbol::media_rows; the output is
// "rows", f32 [{media_rows, 1}, hidden of the text]. The patches or frames that make one output row are neighbours, and
// these groups are in raster order. Pooling and merging therefore combine neighbouring rows.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "media/picture.h"
#include "media/sound.h"

namespace sluice {

// The elements of one input of the program: i32 values, or the bits of f32 values.
struct TowerInput {
  std::string name;
  std::vector<uint32_t> words;
};

// One picture or sound, prepared for its tower.
struct TowerInputs {
  uint32_t rows = 0;                 // rows that the text gets: the value of Symbol::media_rows for the step
  std::vector<TowerInput> inputs{};  // every input of the program
  std::array<uint32_t, 3> grid{};  // time, height and width in rows, if the text's positions depend on them; else zeros
};

// The tokens before and after a tower's rows, and the token that stands for one row; -1: none.
struct TowerTokens {
  int32_t begin = -1, row = -1, end = -1;
  int32_t film_row = -1;  // the token for one row of a film; -1: the same as for a picture
};

struct PictureOptions {
  uint32_t max_rows = 0;  // 0: the model's own number
};

// The frames of a film share the rows that the model allows for the whole film.
struct FilmOptions {
  uint32_t frames = 1;    // of the film
  uint32_t max_rows = 0;  // of the film; 0: the model's own number
};

// How a model takes a film: the frames that it looks at, and the text before the rows of each step.
struct FilmRules {
  uint32_t frames_per_step = 1;  // frames that follow one another and make one step of the tower, at most so many
  // The numbers of the frames to look at, ascending, of a film that has `frames` at `rate` frames a second.
  std::function<std::vector<uint64_t>(uint64_t frames, double rate)> choose = {};
  // The text before a step. `seconds`: when the frames of the step are shown.
  std::function<std::string(std::span<const double> seconds, bool is_first)> stamp = {};
};

}  // namespace sluice

// What a tower takes and what it gives the text program.
//
// A tower is a program that turns one picture or one sound into rows that stand in the place of tokens. One step of it
// is one picture or one sound. Row extents are multiples of Symbol::media_rows; the output is "rows", f32
// [{media_rows, 1}, hidden of the text]. Patches and frames that make one row follow one another, rows in raster order,
// so that pooling and merging take neighbouring rows.
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

// The elements of one input of the program: i32, or the bits of f32.
struct TowerInput {
  std::string name;
  std::vector<uint32_t> words;
};

// One picture or sound as its tower takes it.
struct TowerInputs {
  uint32_t rows = 0;                 // that the text gets: the step's count of Symbol::media_rows
  std::vector<TowerInput> inputs{};  // every input of the program
  std::array<uint32_t, 3> grid{};  // time, height and width in rows, where positions of the text count them; else zeros
};

// Tokens around a tower's rows, and the token in the place of each; -1: none.
struct TowerTokens {
  int32_t begin = -1, row = -1, end = -1;
  int32_t film_row = -1;  // in the place of a film's rows; -1: as of a picture's
};

struct PictureOptions {
  uint32_t max_rows = 0;  // 0: the model's own number
};

// Frames of a film share what the model spends on one.
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

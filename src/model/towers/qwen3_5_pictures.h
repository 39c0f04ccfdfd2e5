// Prepares pictures and films for Qwen3.5's vision tower. Source: transformers Qwen2VLImageProcessor and
// Qwen3VLVideoProcessor (sizes, order of patches), vision_utils.py (positions), 5.17.0.
//
// The inputs of the tower's program have one row for each patch. The patches of one row of the text are neighbours, and
// these blocks are in raster order.
//
//   patches          f32  [patches, 3 frames patch patch]  (number / 255 - mean) / deviation, in the checkpoint's order
//   position_ids     i32  [patches, 4]   entries of the table of positions around the patch
//   position_shares  f32  [patches, 4]   the share of each entry
//   coordinates      i32  [patches, 2]   row and column
//   first, last      i32  [patches, 1]   every patch sees all
#pragma once

#include <span>

#include "base/result.h"
#include "media/picture.h"
#include "model/towers/qwen3_5_vision_config.h"

namespace sluice::qwen3_5 {

// Entries of the position table around a patch.
inline constexpr uint32_t kCorners = 4;

// Prepares one picture, which fills every frame of its patches.
Result<TowerInputs> prepare_picture(const VisionConfig& config, const Picture& picture, const PictureOptions& options);
uint32_t most_rows(const VisionConfig& config, const PictureOptions& options);  // rows of the largest picture
// Prepares the frames for one step of a film. The last frame is repeated if there are too few.
Result<TowerInputs> prepare_frames(const VisionConfig& config, std::span<const Picture> frames,
                                   const FilmOptions& options);
// Two frames a second, at least 4 and at most 768, evenly from the first to the last. The middle of a step's frames is
// written before its rows: "<0.5 seconds>".
FilmRules film_rules(const VisionConfig& config);

}  // namespace sluice::qwen3_5

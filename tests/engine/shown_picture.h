// A grey square in a request to an engine over a model with a vision tower.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "model/model.h"
#include "tests/unwrap.h"

namespace sluice {

struct ShownPicture {
  MediaInput input;
  MediaSpan span;
};

// At most `most_rows` rows (0: the model's own number), behind `before` tokens. A square number gives as many rows.
inline ShownPicture grey_picture(const Model& model, uint32_t before, uint32_t most_rows = 0) {
  constexpr uint32_t kSide = 192;
  const Picture picture{.width = kSide, .height = kSide, .pixels = std::vector<uint8_t>(kSide * kSide * 3, 127)};
  auto inputs = std::make_shared<const TowerInputs>(unwrap(model.prepare(picture, {.max_rows = most_rows})));
  ShownPicture shown{.input = {.content = {1}, .tower = ProgramKind::vision, .inputs = inputs},
                     .span = {.at = before, .rows = inputs->rows, .content = {1}, .shape = {}}};
  for (size_t i = 0; i < inputs->grid.size(); ++i) shown.span.shape.grid[i] = static_cast<uint16_t>(inputs->grid[i]);
  shown.span.shape.sees_ahead = model.sees_ahead(ProgramKind::vision) ? 1 : 0;
  return shown;
}

// Of some tokens, answered greedily.
inline Request words_request(uint32_t tokens, uint32_t answer) {
  Request request;
  for (uint32_t i = 0; i < tokens; ++i) request.prompt.push_back(static_cast<int32_t>(3 + 7 * i % 200));
  request.max_tokens = answer;
  request.sampling.temperature = 0;
  return request;
}

// With three tokens behind the picture.
inline Request request_about(const ShownPicture& shown, uint32_t answer) {
  Request request = words_request(shown.span.at + shown.span.rows + 3, answer);
  request.media = {shown.span};
  return request;
}

}  // namespace sluice

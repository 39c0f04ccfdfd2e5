// Pictures and sounds that the page has given, decoded by the browser. Each is prepared once, and messages and requests
// name it by its number.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/media_parts.h"
#include "model/model.h"

namespace sluice::wasm {

// RGBA, row by row from the top. Of a film: frames of one size, one behind the other.
struct PagePixels {
  std::span<const uint8_t> bytes;
  uint32_t width = 0, height = 0;
  uint32_t frames = 1;
};

class MediaTable {
 public:
  // Each replies what sluice.h says of it. `max_rows`: 0 for the model's own number.
  Result<Json> add_picture(const Model& model, const PagePixels& pixels, uint32_t max_rows);
  Result<Json> add_film(const Model& model, const PagePixels& pixels);
  Result<Json> add_sound(const Model& model, std::span<const float> samples, uint32_t rate);
  void remove(uint32_t number) { media_.erase(number); }

  Result<std::vector<PreparedMedia>> named(const std::vector<uint32_t>& numbers) const;
  // All that parts of the messages name, in their order.
  Result<std::vector<PreparedMedia>> shown_by(const Json& messages) const;

 private:
  int64_t add(PreparedMedia media);

  std::map<uint32_t, PreparedMedia> media_;
  uint32_t last_ = 0;
};

}  // namespace sluice::wasm

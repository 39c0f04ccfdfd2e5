// What a person sees of a picture, sound or film that they give: a small picture where the terminal can show one, and a
// line with its name, its size and its tokens. Nothing where standard output is no terminal.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/console.h"
#include "app/cli/inline_picture.h"
#include "chat/media_parts.h"

namespace sluice {

class MediaDisplay {
 public:
  // `thumbnails`: a value of --thumbnails.
  MediaDisplay(Console& console, std::string thumbnails) : console_(&console), thumbnails_(std::move(thumbnails)) {}
  // `behind`: ends each line.
  void show(const std::vector<PreparedMedia>& media, std::string_view behind);

 private:
  InlinePictures way();

  Console* console_;
  std::string thumbnails_;
  std::optional<InlinePictures> way_;  // once it is known
};

// One element, or all steps of a film: "photo.jpg, 1024 x 768, 256 tokens", "b.wav, 3.2 s, 81 tokens",
// "film.mp4, 12.0 s, 24 frames, 1680 tokens".
std::string media_line(std::span<const PreparedMedia> media);
// The elements of `media`, those of each film together.
std::vector<std::span<const PreparedMedia>> by_source(const std::vector<PreparedMedia>& media);
// "photo.jpg, b.wav"
std::string media_names(const std::vector<PreparedMedia>& media);

}  // namespace sluice

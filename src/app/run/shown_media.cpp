#include "app/run/shown_media.h"

#include <cstdio>
#include <utility>

#include "app/cli/environment.h"
#include "app/cli/terminal.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kAskAttributes = "\x1b[c";

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

std::string size_text(const MediaSource& source) {
  switch (source.kind) {
    case MediaKind::picture: return cat(source.width, " x ", source.height);
    case MediaKind::sound: return seconds_text(source.seconds);
    case MediaKind::film: break;
  }
  return cat(seconds_text(source.seconds), ", ", source.frames, source.frames == 1 ? " frame" : " frames");
}

}  // namespace

std::vector<std::span<const PreparedMedia>> by_source(const std::vector<PreparedMedia>& media) {
  std::vector<std::span<const PreparedMedia>> groups;
  for (size_t first = 0, end = 0; first < media.size(); first = end) {
    for (end = first + 1; end < media.size() && !media[end].is_first();) ++end;
    groups.push_back(std::span(media).subspan(first, end - first));
  }
  return groups;
}

std::string media_names(const std::vector<PreparedMedia>& media) {
  std::string names;
  for (const PreparedMedia& one : media)
    if (one.is_first()) names += cat(names.empty() ? "" : ", ", printable(one.label));
  return names;
}

std::string media_line(std::span<const PreparedMedia> media) {
  uint32_t tokens = 0;
  for (const PreparedMedia& one : media) tokens += one.rows();
  const PreparedMedia& first = media.front();
  return cat(printable(first.label), ", ", first.source == nullptr ? "" : size_text(*first.source) + ", ", tokens,
             tokens == 1 ? " token" : " tokens");
}

InlinePictures MediaDisplay::way() {
  if (way_) return *way_;
  if (thumbnails_ == "kitty") way_ = InlinePictures::kitty;
  if (thumbnails_ == "iterm2") way_ = InlinePictures::iterm2;
  if (thumbnails_ == "sixel") way_ = InlinePictures::sixel;
  if (thumbnails_ == "auto") way_ = inline_pictures_of(terminal_variables());
  if (way_) return *way_;
  const bool can_ask = thumbnails_ == "auto" && console_->in_is_terminal();
  way_ = can_ask && answers_sixel(ask_terminal(*console_, kAskAttributes, 'c')) ? InlinePictures::sixel
                                                                                : InlinePictures::none;
  return *way_;
}

void MediaDisplay::show(const std::vector<PreparedMedia>& media, std::string_view behind) {
  if (!console_->out_is_terminal()) return;
  for (const std::span<const PreparedMedia> one : by_source(media)) {
    const bool has_small = one.front().source != nullptr && !one.front().source->small.pixels.empty();
    if (const std::string picture = has_small ? inline_picture(one.front().source->small, way()) : ""; !picture.empty())
      console_->out(picture + "\n");
    console_->out(cat(media_line(one), behind, "\n"));
  }
}

}  // namespace sluice

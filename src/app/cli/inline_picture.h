// Small pictures within a terminal's text, in the three ways that terminals know. Each function gives the bytes to
// write; the picture then stands at the cursor.
//
//   Kitty    https://sw.kovidgoyal.net/kitty/graphics-protocol/
//   iTerm2   https://iterm2.com/documentation-images.html
//   Sixel    DEC STD 070, chapter 9
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli/environment.h"
#include "media/picture.h"

namespace sluice {

enum class InlinePictures : uint8_t { none, kitty, iterm2, sixel };

// RGB pixels, in base64 and in pieces of 4096 characters.
std::string kitty_picture(const Picture& picture);
// A PNG file in base64.
std::string iterm2_picture(const Picture& picture);
// 252 fixed colours: six levels of red, seven of green and six of blue.
std::string sixel_picture(const Picture& picture);
std::string inline_picture(const Picture& picture, InlinePictures way);  // "" for none

// What a terminal's variables say. None said: it must be asked. Within tmux and screen the variables are
// those of the terminal around it, which pictures do not reach.
std::optional<InlinePictures> inline_pictures_of(const TerminalVariables& variables);
// Whether a terminal's answer to "\x1b[c" (primary device attributes) names Sixel: "\x1b[?62;4;22c".
bool answers_sixel(std::string_view answer);

// An uncompressed PNG file (https://www.w3.org/TR/png-3/).
std::string png_file(const Picture& picture);

}  // namespace sluice

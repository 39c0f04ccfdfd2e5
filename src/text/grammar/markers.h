// Markers: tokens of the vocabulary that are no text, such as the one that opens a call, as a grammar reads them.
//
// A grammar reads bytes. A marker stands in it as two bytes, of which the first is in no UTF-8 text, so that letters
// which spell the marker are never taken for it. TokenMask maps the tokens to these bytes.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

inline constexpr uint8_t kMarkerByte = 0xff;

// Numbers of the markers of calls, in the order of ToolSyntax: around a call, then within calls, then around all.
inline constexpr uint32_t kOpenMarker = 0, kCloseMarker = 1, kFirstInnerMarker = 2;

inline std::string marker_text(uint32_t number) { return {static_cast<char>(kMarkerByte), static_cast<char>(number)}; }

// A marker of a grammar and its token.
struct TokenMarker {
  int32_t token = 0;
  uint32_t number = 0;
};

}  // namespace sluice

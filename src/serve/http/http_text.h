// The text of HTTP that is our own: heads of replies, chunks, targets. The parser of requests is Boost.Beast's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace sluice {

std::string_view reason_phrase(int status);

enum class BodyForm : uint8_t { sized, chunked, until_close };

// Status line and headers, the empty line included. `body_bytes` counts for BodyForm::sized.
std::string head_text(const ServerReply& reply, BodyForm form, size_t body_bytes, bool keeps_alive);
// `bytes` as one chunk; "" stays "".
std::string chunk_text(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Splits "/v1/models/a%2Fb?beta=true" into path and query and decodes the path. False: the target is none that a
// server has.
bool split_target(std::string_view target, ServerRequest& request);

}  // namespace sluice

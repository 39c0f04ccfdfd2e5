// Base64, in which requests carry files, and terminals take bytes. Source: RFC 4648
// (https://www.rfc-editor.org/rfc/rfc4648), section 4.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

std::string encode_base64(std::string_view bytes);  // with padding

// The bytes; padding may be missing. None: a character outside the alphabet, or a length that no bytes have.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace sluice

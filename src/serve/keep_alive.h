// How long a model stays loaded after its last answer: seconds, or text such as "5m", as Ollama's clients write it.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "serve/refusal.h"

namespace sluice {

// Negative: until the room is needed.
using KeepAlive = std::chrono::duration<double>;
inline constexpr KeepAlive kKeepLoaded{-1};

// "90", "90s", "1h30m", "1.5h", "500ms", "-1", "-1m". None: it is no duration.
std::optional<KeepAlive> parse_keep_alive(std::string_view text);
// The field `keep_alive` of a request: a number of seconds or such a text; null counts as absent.
Outcome<std::optional<KeepAlive>> read_keep_alive(const Json* field);

}  // namespace sluice

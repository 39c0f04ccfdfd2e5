#include "checkpoint/places/ollama_name.h"

#include <algorithm>

#include "base/text.h"

namespace sluice {

namespace {

constexpr std::string_view kDefaultHost = "registry.ollama.ai";
constexpr std::string_view kDefaultSpace = "library";
constexpr size_t kMaxHostBytes = 350;
constexpr size_t kMaxPartBytes = 80;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_part(std::string_view part, std::string_view more, size_t limit) {
  return !part.empty() && part.size() <= limit && is_letter_or_digit(part.front()) &&
         std::ranges::all_of(part,
                             [&](char c) { return is_letter_or_digit(c) || more.find(c) != std::string_view::npos; });
}

}  // namespace

bool OllamaName::on_default_host() const { return host == kDefaultHost; }

std::string OllamaName::text() const {
  const std::string short_name = cat(model, ':', tag);
  if (!on_default_host()) return cat(host, '/', name_space, '/', short_name);
  return name_space == kDefaultSpace ? short_name : cat(name_space, '/', short_name);
}

std::string OllamaName::path() const { return cat(host, '/', name_space, '/', model, '/', tag); }

std::optional<OllamaName> make_ollama_name(std::string_view host, std::string_view name_space, std::string_view model,
                                           std::string_view tag) {
  const bool fits = is_part(host, "-.:", kMaxHostBytes) && is_part(name_space, "-.", kMaxPartBytes) &&
                    is_part(model, "-.", kMaxPartBytes) && is_part(tag, "-.", kMaxPartBytes);
  if (!fits) return std::nullopt;
  return OllamaName{std::string(host), std::string(name_space), std::string(model), std::string(tag)};
}

std::optional<OllamaName> parse_ollama_name(std::string_view text) {
  std::string_view tag = kOllamaTag;
  const size_t colon = text.rfind(':');
  const size_t last_slash = text.rfind('/');
  // A colon before the last slash belongs to a host's port.
  if (colon != std::string_view::npos && (last_slash == std::string_view::npos || colon > last_slash)) {
    tag = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  const auto parts = split(text, '/');
  switch (parts.size()) {
    case 1: return make_ollama_name(kDefaultHost, kDefaultSpace, parts[0], tag);
    case 2: return make_ollama_name(kDefaultHost, parts[0], parts[1], tag);
    case 3: return make_ollama_name(parts[0], parts[1], parts[2], tag);
    default: return std::nullopt;
  }
}

}  // namespace sluice

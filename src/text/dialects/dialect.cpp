#include "text/dialects/dialect.h"

#include <algorithm>

#include "base/text.h"

namespace sluice {

namespace {

constexpr ChatDialect kDialects[] = {
    {.name = "gemma4", .open = "<|channel>", .close = "<channel|>", .header = "thought\n"},
    {.name = "think", .open = "<think>", .close = "</think>", .header = "\n", .own_lines = true},
    {.name = "plain", .open = {}, .close = {}, .header = {}},
};

std::string_view without_end_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

std::span<const ChatDialect> dialects() { return kDialects; }

const ChatDialect* find_dialect(std::string_view name) {
  const auto* found = std::find_if(std::begin(kDialects), std::end(kDialects),
                                   [&](const ChatDialect& row) { return row.name == name; });
  return found == std::end(kDialects) ? nullptr : found;
}

bool starts_thinking(const ChatDialect& dialect, std::string_view prompt) {
  if (dialect.open.empty()) return false;
  prompt = without_end_blanks(prompt);
  const std::string_view header = without_end_blanks(dialect.header);
  if (ends_with(prompt, header)) prompt.remove_suffix(header.size());
  return ends_with(prompt, dialect.open);
}

}  // namespace sluice

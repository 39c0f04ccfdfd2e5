#include "device/webgpu/wgsl_template.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace sluice::webgpu {
namespace {

constexpr std::string_view kOpen = "${";

bool is_name(std::string_view name) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::ranges::all_of(name, is_part);
}

// Calls `plain` with each stretch of text between placeholders and `named` with each placeholder's name, in order.
// Returns where a '$' begins no placeholder, or npos.
template <class Plain, class Named>
size_t walk(std::string_view text, const Plain& plain, const Named& named) {
  for (size_t at = 0; at < text.size();) {
    const size_t dollar = std::min(text.find('$', at), text.size());
    plain(text.substr(at, dollar - at));
    if (dollar == text.size()) break;
    const size_t begin = dollar + kOpen.size(), end = text.find('}', dollar);
    if (!text.substr(dollar).starts_with(kOpen) || end == text.npos || !is_name(text.substr(begin, end - begin)))
      return dollar;
    named(text.substr(begin, end - begin));
    at = end + 1;
  }
  return text.npos;
}

const Placeholder* find(std::initializer_list<Placeholder> values, std::string_view name) {
  const auto* const found = std::ranges::find(values, name, &Placeholder::name);
  return found == values.end() ? nullptr : found;
}

}  // namespace

bool has_placeholder(std::string_view text, std::string_view name) {
  return text.find(cat(kOpen, name, "}")) != text.npos;
}

std::string template_fault(std::string_view text, std::initializer_list<Placeholder> values) {
  std::string_view unknown;
  const auto note = [&](std::string_view name) {
    if (find(values, name) == nullptr) unknown = name;
  };
  const size_t stray = walk(text, [](std::string_view) {}, note);
  if (stray != text.npos) return cat("'$' begins no placeholder: \"", text.substr(stray, 20), "\"");
  if (!unknown.empty()) return cat("placeholder ${", unknown, "} has no value");
  for (const Placeholder& one : values) {
    if (find(values, one.name) != &one) return cat("placeholder ${", one.name, "} has two values");
    if (!has_placeholder(text, one.name)) return cat("placeholder ${", one.name, "} is not in the text");
  }
  return {};
}

std::string fill(std::string_view text, std::initializer_list<Placeholder> values) {
  if (const std::string fault = template_fault(text, values); !fault.empty())
    check_failed(cat("WGSL template: ", fault).c_str(), __FILE__, __LINE__);
  std::string filled;
  walk(
      text, [&](std::string_view plain) { filled += plain; },
      [&](std::string_view name) { filled += find(values, name)->value; });
  return filled;
}

}  // namespace sluice::webgpu

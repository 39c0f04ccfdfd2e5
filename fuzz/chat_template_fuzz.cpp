// Any bytes as a chat template, rendered with a fixed conversation: nothing but a text or one sentence may come of it.
// The bounds are small, so that a run takes a fraction of a second and a few megabytes. What looks at more than it is
// charged for, or holds more than it counts, runs into the limits of time and memory that tools/fuzz.sh sets.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/jinja/template.h"

namespace {

constexpr std::string_view kContext = R"({
  "bos_token": "<bos>", "add_generation_prompt": true, "enable_thinking": false, "n": 7, "f": 2.5, "nil": null,
  "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hé 😀\n there"},
    {"role": "assistant", "content": "<think>hm</think> x", "tool_calls": [{"type": "function", "function":
      {"name": "look_up", "arguments": {"word": "tree", "n": 2, "deep": [1, [true, null]]}}}]},
    {"role": "tool", "name": "look_up", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
  "tools": [{"type": "function", "function": {"name": "look_up", "description": "Looks \"up\".",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}}}]})";

sluice::jinja::Value context() {
  const auto json = sluice::parse_json(kContext, "context");
  CHECK(json.ok());
  const auto value = sluice::jinja::to_value(*json);
  CHECK(value.ok());
  return *value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sluice::jinja::Template;
  static const sluice::jinja::Value kVariables = context();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::jinja::Limits limits;
  limits.steps = 200000;
  limits.memory_bytes = 8u << 20;
  limits.text_bytes = 1u << 20;
  const auto parsed = Template::parse(text, "fuzz", limits);
  if (!parsed) {
    CHECK(parsed.error().text.find('\n') == std::string::npos);
    return 0;
  }
  sluice::jinja::Usage usage;
  const auto rendered = parsed->render(kVariables, {}, &usage);
  CHECK(rendered ? rendered->size() <= limits.text_bytes : rendered.error().text.find('\n') == std::string::npos);
  CHECK(usage.peak_bytes <= limits.memory_bytes);
  return 0;
}

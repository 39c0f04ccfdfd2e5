// WGSL text with named placeholders.
//
//   fill("fn ${w}_16(row: u32, part: u32)", {{"w", "gate"}})   // "fn gate_16(row: u32, part: u32)"
//
// A name is made of letters, digits and '_'. Every placeholder needs a value, and every value a placeholder. A '$' only
// begins placeholders (WGSL has no '$'). A text that breaks these rules is our own mistake: fill() ends the program and
// names the placeholder. A value is inserted as it is; placeholders in it are not filled.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace sluice::webgpu {

struct Placeholder {
  std::string_view name{}, value{};
};

std::string fill(std::string_view text, std::initializer_list<Placeholder> values);

// Whether ${name} stands in the text.
bool has_placeholder(std::string_view text, std::string_view name);

// A sentence about the first rule that text and values break; empty: none.
std::string template_fault(std::string_view text, std::initializer_list<Placeholder> values);

}  // namespace sluice::webgpu

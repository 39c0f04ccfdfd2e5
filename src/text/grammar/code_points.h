// Sets of code points, and the texts of one character that a set stands for.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "text/grammar/grammar_builder.h"

namespace sluice {

inline constexpr uint32_t kMaxCodePoint = 0x10ffff;

class CodePoints {
 public:
  CodePoints() = default;
  static CodePoints all() { return range(0, kMaxCodePoint); }
  static CodePoints range(uint32_t first, uint32_t last);
  static CodePoints of(uint32_t code_point) { return range(code_point, code_point); }

  void add(uint32_t first, uint32_t last);
  void add(const CodePoints& other);
  CodePoints inverse() const;
  CodePoints without(const CodePoints& other) const;
  bool has(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending ranges, both ends included, that neither touch nor overlap.
  const std::vector<std::pair<uint32_t, uint32_t>>& ranges() const;

 private:
  // Joined when they are asked for: a class of many characters may come in any order.
  mutable std::vector<std::pair<uint32_t, uint32_t>> ranges_;
  mutable bool is_joined_ = true;
};

// One character of the set in UTF-8. Surrogates have no such text.
Expression utf8_character(GrammarBuilder& builder, const CodePoints& set);
// The same within a JSON string: as itself, or by its usual escape where it must be escaped.
Expression json_character(GrammarBuilder& builder, const CodePoints& set);

}  // namespace sluice

// The regular expressions by which PEFT's configurations name modules (Python's re): characters, '.', classes, groups,
// '|', '*', '+', '?', and the escapes \d, \w, \s and \ before punctuation. '^' and '$' are allowed at the ends.
// Matching takes time in proportion to the lengths of pattern and name squared, whatever the pattern is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

class NamePattern {
 public:
  // Fails with one sentence when the pattern has something else.
  static Result<NamePattern> parse(std::string_view pattern);
  // Whether the whole name matches.
  bool matches(std::string_view name) const;

  struct Node;

 private:
  explicit NamePattern(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  std::shared_ptr<const Node> root_;
};

}  // namespace sluice

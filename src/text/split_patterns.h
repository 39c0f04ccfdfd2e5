// The known expressions and their matchers, for pre_tokenizer.cpp only.
#pragma once

#include <string_view>

#include "text/pre_tokenizer.h"

namespace sluice {

struct Match {
  size_t begin = 0;
  size_t end = 0;  // equal to begin: no further match
};

struct SplitPattern {
  Split split;
  std::string_view regex;
  // The first match in `text` at or after `from`. Look-ahead treats the end of `text` as the end of the input.
  Match (*find)(std::string_view text, size_t from);
};

// The row of the table for an expression.
const SplitPattern& split_pattern(Split split);
const SplitPattern* find_split_pattern(std::string_view regex);

}  // namespace sluice

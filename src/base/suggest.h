// The word that somebody probably meant: "--max-token" is near "--max-tokens".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

// The nearest of `known` by letters that are missing, too many, wrong or exchanged, in any case; "" where none is near.
std::string nearest_word(std::string_view word, std::span<const std::string> known);
// ": did you mean X?"; "" where no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace sluice

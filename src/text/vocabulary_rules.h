// Code that the readers of vocabularies share, for vocabulary*.cpp only.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/vocabulary.h"

namespace sluice {

// U+2581, which stands for a space in SentencePiece vocabularies.
inline constexpr std::string_view kSpaceMark = "\u2581";

// Fills the index. Two tokens with the same text are an error.
Status index_tokens(Vocabulary& vocabulary, std::string_view where);
// Adds the next merge in rank. `where` names the list in errors.
Status add_merge(Vocabulary& vocabulary, std::string_view left, std::string_view right, std::string_view where);
// The same for a text "left right", which is cut at the first space that is not the first character.
Status add_merge(Vocabulary& vocabulary, std::string_view pair, std::string_view where);
// The byte that "<0x41>" stands for.
std::optional<uint8_t> byte_of(std::string_view text);
// Whether the text is one of Gemma 4's markers that llama.cpp's files declare as user-defined, so that llama.cpp's chat
// parser sees them in the text.
bool is_visible_marker(std::string_view text);
// Marks byte tokens, and tokens that end an answer by their text. It is a reader's last step.
void complete(Vocabulary& vocabulary);

}  // namespace sluice

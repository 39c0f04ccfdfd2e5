// Detokenizer: turns ids into text one by one, so that an answer can be shown while it is generated.
//
// Only whole characters come out: an unfinished character is held back until its other bytes arrive. Bytes that cannot
// become a character come out as U+FFFD. A byte-level vocabulary replaces them as Rust's from_utf8_lossy does; a
// vocabulary with byte tokens replaces each byte. The pieces together equal Tokenizer::decode's text, with one
// exception: decode turns a whole run of byte tokens into U+FFFD if any of its bytes is not UTF-8, but here the
// characters at the beginning of the run have been shown already.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

class Tokenizer;

inline constexpr uint32_t kReplacement = 0xfffd;

// `text` with one U+FFFD in place of each unfinished character, which is taken as long as possible.
std::string lossy_utf8(std::string_view text);

class Detokenizer {
 public:
  // The tokenizer must outlive the object.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that `id` completes, often empty.
  std::string push(int32_t id);
  // The text still held back, as U+FFFD. Afterwards the object is ready for another text.
  std::string flush();

 private:
  std::string take(size_t bytes);

  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool at_start_ = true;  // no text has come out yet
  std::string pending_;
};

}  // namespace sluice

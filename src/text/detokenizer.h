// Detokenizer: ids to text one by one, for an answer that is shown as it comes.
//
// Only whole characters come out; the beginning of one is held back until its other bytes are there. Bytes that can
// never become a character come out as U+FFFD: of a byte-level vocabulary as Rust's from_utf8_lossy replaces them, of
// one with byte tokens one per byte. The pieces together are Tokenizer::decode's text, except that decode turns a whole
// run of byte tokens into U+FFFD when any of it is not UTF-8, and here the characters before have been shown by then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

class Tokenizer;

inline constexpr uint32_t kReplacement = 0xfffd;

// `text` with every longest beginning of a character that is never finished replaced by one U+FFFD.
std::string lossy_utf8(std::string_view text);

class Detokenizer {
 public:
  // Keeps a reference to the tokenizer.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that `id` completes, often empty.
  std::string push(int32_t id);
  // What is still held back, as U+FFFD; then ready for another text.
  std::string flush();

 private:
  std::string take(size_t bytes);

  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool at_start_ = true;  // nothing has come out yet
  std::string pending_;
};

}  // namespace sluice

#include "app/cli/word_wrap.h"

#include <algorithm>
#include <clocale>
#include <cwchar>

#include "base/unicode.h"

namespace sluice {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

// Makes wcwidth() answer for UTF-8 on this thread while it lasts.
class Utf8Locale {
 public:
  Utf8Locale() : before_(uselocale(utf8())) {}
  ~Utf8Locale() { uselocale(before_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  static locale_t utf8() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return locale;
  }
  locale_t before_;
};

}  // namespace

size_t character_columns(uint32_t code_point) {
  if (code_point < 0x20 || code_point == 0x7f) return 0;
  if (code_point < 0x7f) return 1;
  const Utf8Locale locale;
  const int columns = wcwidth(static_cast<wchar_t>(code_point));
  return columns < 0 ? 1 : static_cast<size_t>(columns);
}

size_t text_columns(std::string_view utf8) {
  size_t columns = 0;
  while (!utf8.empty()) {
    const Decoded one = decode_utf8(utf8);
    columns += one.bytes == 0 ? 1 : character_columns(one.code_point);
    utf8.remove_prefix(one.bytes == 0 ? 1 : one.bytes);
  }
  return columns;
}

std::string cut_to_columns(std::string_view utf8, size_t columns) {
  if (text_columns(utf8) <= columns) return std::string(utf8);
  if (columns == 0) return {};
  size_t used = 0, at = 0;
  while (at < utf8.size()) {
    const Decoded one = decode_utf8(utf8.substr(at));
    const size_t wide = one.bytes == 0 ? 1 : character_columns(one.code_point);
    if (used + wide > columns - 1) break;
    used += wide;
    at += one.bytes == 0 ? 1 : one.bytes;
  }
  return std::string(utf8.substr(0, at)) += kEllipsis;
}

namespace {

constexpr size_t kFoldIndent = 4;

// Where a line is broken, so that at most `columns` stand before it: before two blanks, else before one, else anywhere.
size_t fold_at(std::string_view line, size_t columns) {
  size_t cell = 0, word = 0, used = 0, at = 0;
  while (at < line.size()) {
    const Decoded one = decode_utf8(line.substr(at));
    const size_t bytes = one.bytes == 0 ? 1 : one.bytes;
    used += one.bytes == 0 ? 1 : character_columns(one.code_point);
    if (used > columns && line[at] != ' ') break;
    const bool begins = line[at] == ' ' && at > kFoldIndent && line[at - 1] != ' ';
    if (begins) word = at;
    if (begins && at + 1 < line.size() && line[at + 1] == ' ') cell = at;
    at += bytes;
  }
  return cell > columns / 3 ? cell : word > 0 ? word : at;
}

}  // namespace

std::string folded(std::string_view text, size_t columns) {
  if (columns <= 2 * kFoldIndent) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    while (text_columns(line) > columns) {
      const size_t at = fold_at(line, columns);
      out += line.substr(0, at) + '\n';
      const size_t next = std::min(line.find_first_not_of(' ', at), line.size());
      line = std::string(kFoldIndent, ' ') + line.substr(next);
    }
    out += line + '\n';
  }
  return out;
}

void WordWrap::end_word(std::string& out) {
  if (word_.empty()) return;
  const bool breaks = !in_code_ && column_ > 0 && column_ + blanks_.size() + word_columns_ > columns_;
  if (breaks) {
    out += '\n';
    column_ = 0;
  } else {
    out += blanks_;
    column_ += blanks_.size();
  }
  blanks_.clear();
  out += word_;
  // A word longer than a line goes on below it, as the terminal has it.
  column_ = column_ + word_columns_ <= columns_ ? column_ + word_columns_ : (column_ + word_columns_) % columns_;
  word_.clear();
  word_columns_ = 0;
}

void WordWrap::take(uint32_t code_point, std::string_view character, std::string& out) {
  if (code_point == '\n') {
    end_word(out);
    out += blanks_;
    out += '\n';
    blanks_.clear();
    column_ = 0;
    if (line_start_ == kFence) in_code_ = !in_code_;
    line_start_.clear();
    return;
  }
  if (line_start_.size() < kFence.size()) line_start_ += code_point == '`' ? '`' : ' ';
  if (code_point == ' ' || code_point == '\t') {
    end_word(out);
    blanks_ += static_cast<char>(code_point);
    return;
  }
  const size_t columns = character_columns(code_point);
  if (columns == 2) end_word(out);  // wide characters may stand at the begin of a line without a blank before them
  word_ += character;
  word_columns_ += columns;
  if (columns == 2) end_word(out);
}

std::string WordWrap::add(std::string_view text) {
  if (columns_ == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const Decoded one = decode_utf8(text);
    const size_t bytes = one.bytes == 0 ? 1 : one.bytes;
    take(one.bytes == 0 ? 0xfffd : one.code_point, text.substr(0, bytes), out);
    text.remove_prefix(bytes);
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  if (columns_ != 0) end_word(out);
  out += blanks_;
  blanks_.clear();
  return out;
}

}  // namespace sluice

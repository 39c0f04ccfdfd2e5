#include "text/grammar/code_points.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice {
namespace {

struct Escape {
  char code_point, letter;
};
constexpr std::array<Escape, 7> kEscapes = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
constexpr std::array<uint32_t, 4> kLastOfLength = {0x7f, 0x7ff, 0xffff, kMaxCodePoint};

// A range of characters of one length whose bytes vary independently.
Expression byte_ranges(GrammarBuilder& builder, uint32_t first, uint32_t last, uint32_t length) {
  std::vector<Expression> parts;
  for (uint32_t i = 0; i < length; ++i) {
    const uint32_t shift = 6 * (length - 1 - i);
    const uint32_t mask = i > 0 ? 0x3f : 0xff;
    const uint32_t mark = i > 0 ? 0x80 : length == 2 ? 0xc0 : length == 3 ? 0xe0 : 0xf0;
    parts.push_back(builder.bytes(ByteSet::range(mark | (first >> shift & mask), mark | (last >> shift & mask))));
  }
  return builder.sequence(std::move(parts));
}

// Cuts a range until the bytes of its characters vary independently.
void add_ranges(GrammarBuilder& builder, uint32_t first, uint32_t last, std::vector<Expression>& into) {
  std::vector<std::pair<uint32_t, uint32_t>> work = {{first, last}};
  while (!work.empty()) {
    const auto [from, to] = work.back();
    work.pop_back();
    const auto length = static_cast<uint32_t>(std::ranges::lower_bound(kLastOfLength, from) - kLastOfLength.begin());
    uint32_t cut = std::min(to, kLastOfLength[length]);
    for (uint32_t tail = 1; tail <= length && cut == to; ++tail) {
      const uint32_t mask = (1u << (6 * tail)) - 1;
      if ((from & ~mask) == (to & ~mask)) continue;
      if ((from & mask) != 0)
        cut = from | mask;
      else if ((to & mask) != mask)
        cut = (to & ~mask) - 1;
    }
    if (cut < to)
      work.insert(work.end(), {{from, cut}, {cut + 1, to}});
    else
      into.push_back(byte_ranges(builder, from, to, length + 1));
  }
}

}  // namespace

CodePoints CodePoints::range(uint32_t first, uint32_t last) {
  CodePoints set;
  set.add(first, last);
  return set;
}

void CodePoints::add(uint32_t first, uint32_t last) {
  is_joined_ = is_joined_ && (ranges_.empty() || ranges_.back().second + 1 < first);
  ranges_.emplace_back(first, last);
}

const std::vector<std::pair<uint32_t, uint32_t>>& CodePoints::ranges() const {
  if (is_joined_) return ranges_;
  is_joined_ = true;
  std::ranges::sort(ranges_);
  std::vector<std::pair<uint32_t, uint32_t>> joined;
  for (const auto& one : ranges_)
    if (!joined.empty() && one.first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, one.second);
    else
      joined.push_back(one);
  ranges_ = std::move(joined);
  return ranges_;
}

void CodePoints::add(const CodePoints& other) {
  for (const auto& [first, last] : other.ranges()) add(first, last);
}

CodePoints CodePoints::inverse() const {
  CodePoints set;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges()) {
    if (first > next) set.add(next, first - 1);
    next = last + 1;
  }
  if (next <= kMaxCodePoint) set.add(next, kMaxCodePoint);
  return set;
}

CodePoints CodePoints::without(const CodePoints& other) const {
  CodePoints rest = inverse();
  rest.add(other);
  return rest.inverse();
}

bool CodePoints::has(uint32_t code_point) const {
  return std::ranges::any_of(
      ranges_, [=](const auto& range) { return code_point >= range.first && code_point <= range.second; });
}

Expression utf8_character(GrammarBuilder& builder, const CodePoints& set) {
  std::vector<Expression> parts;
  ByteSet ascii;
  const CodePoints characters = set.without(CodePoints::range(0xd800, 0xdfff));
  for (const auto& [first, last] : characters.ranges()) {
    for (uint32_t one = first; one <= std::min(last, 0x7fu); ++one) ascii.add(static_cast<uint8_t>(one));
    if (last >= 0x80) add_ranges(builder, std::max(first, 0x80u), last, parts);
  }
  parts.push_back(builder.bytes(ascii));
  return builder.either(std::move(parts));
}

Expression json_character(GrammarBuilder& builder, const CodePoints& set) {
  CodePoints escaped = CodePoints::range(0, 0x1f);
  escaped.add('"', '"');
  escaped.add('\\', '\\');
  std::vector<Expression> parts = {utf8_character(builder, set.without(escaped))};
  ByteSet letters;
  for (const auto& [code_point, letter] : kEscapes)
    if (set.has(static_cast<uint32_t>(code_point))) letters.add(static_cast<uint8_t>(letter));
  parts.push_back(builder.sequence({builder.text("\\"), builder.bytes(letters)}));
  std::vector<std::string> others;
  for (uint32_t code_point = 0; code_point < 0x20; ++code_point) {
    if (!set.has(code_point)) continue;
    others.push_back(cat("\\u00", code_point < 16 ? "0" : "1", "0123456789abcdef"[code_point % 16]));
  }
  parts.push_back(builder.words(std::move(others)));
  return builder.either(std::move(parts));
}

}  // namespace sluice

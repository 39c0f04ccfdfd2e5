// Categories, case and normal form C by table. Source: The Unicode Standard, chapter 3.11 (normalization, canonical
// ordering and composition) and 3.12 (Hangul by arithmetic).
#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "base/unicode.h"

namespace sluice {
namespace {

struct CodePointPair {
  uint32_t from, to;
};
struct Decomposition {
  uint32_t from;
  uint16_t begin, count;  // in kDecomposed
};
struct Composition {
  uint32_t first, second, to;
};

#include <unicode_tables.inc>

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kFirstChanging = 0x300;   // below it every text is in normal form
constexpr uint32_t kFirstDecomposed = 0xc0;  // the first letter with an accent

template <class Row, size_t kRows>
const Row* find(const Row (&rows)[kRows], uint32_t code_point) {
  const Row* row = std::ranges::lower_bound(rows, code_point, {}, &Row::from);
  return row != std::end(rows) && row->from == code_point ? row : nullptr;
}

template <size_t kRows>
uint32_t look_up(const CodePointPair (&rows)[kRows], uint32_t code_point, uint32_t otherwise) {
  const CodePointPair* row = find(rows, code_point);
  return row == nullptr ? otherwise : row->to;
}

uint32_t combining_class(uint32_t c) { return c < kFirstChanging ? 0 : look_up(kCombiningClasses, c, 0); }

// ---- Hangul: syllable = (leading, vowel, trailing or none), counted in that order

constexpr uint32_t kSyllables = 0xac00, kLeadings = 0x1100, kVowels = 0x1161, kTrailings = 0x11a7;
constexpr uint32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;  // a first "trailing" that is none
constexpr uint32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

bool decompose_syllable(uint32_t c, std::vector<uint32_t>& out) {
  const uint32_t index = c - kSyllables;
  if (c < kSyllables || index >= kSyllableCount) return false;
  out.push_back(kLeadings + index / kTrailingCount / kVowelCount);
  out.push_back(kVowels + index / kTrailingCount % kVowelCount);
  if (index % kTrailingCount != 0) out.push_back(kTrailings + index % kTrailingCount);
  return true;
}

std::optional<uint32_t> compose_syllable(uint32_t first, uint32_t second) {
  if (first - kLeadings < kLeadingCount && second - kVowels < kVowelCount)
    return kSyllables + ((first - kLeadings) * kVowelCount + second - kVowels) * kTrailingCount;
  const uint32_t index = first - kSyllables, trailing = second - kTrailings;
  const bool open = index < kSyllableCount && index % kTrailingCount == 0;
  if (open && trailing > 0 && trailing < kTrailingCount) return first + trailing;
  return std::nullopt;
}

// ---- normal form

void decompose(uint32_t c, std::vector<uint32_t>& out) {
  if (c < kFirstDecomposed) return out.push_back(c);
  if (decompose_syllable(c, out)) return;
  const Decomposition* row = find(kDecompositions, c);
  if (row == nullptr) return out.push_back(c);
  out.insert(out.end(), kDecomposed + row->begin, kDecomposed + row->begin + row->count);
}

// Marks behind a character stand in the order of their classes, and within a class as they were.
void order(std::vector<uint32_t>& chars) {
  std::vector<uint64_t> marks;  // class, place, character
  const auto put_back = [&](size_t end) {
    std::sort(marks.begin(), marks.end());
    for (size_t i = 0; i < marks.size(); ++i) chars[end - marks.size() + i] = marks[i] & 0x1fffff;
    marks.clear();
  };
  for (size_t i = 0; i < chars.size(); ++i)
    if (const uint64_t own_class = combining_class(chars[i]); own_class != 0)
      marks.push_back(own_class << 53 | uint64_t{marks.size()} << 21 | chars[i]);
    else
      put_back(i);
  put_back(chars.size());
}

std::optional<uint32_t> compose(uint32_t first, uint32_t second) {
  if (const auto syllable = compose_syllable(first, second)) return syllable;
  const auto before = [](const Composition& row, const Composition& wanted) {
    return row.first != wanted.first ? row.first < wanted.first : row.second < wanted.second;
  };
  const auto* row =
      std::lower_bound(std::begin(kCompositions), std::end(kCompositions), Composition{first, second, 0}, before);
  if (row == std::end(kCompositions) || row->first != first || row->second != second) return std::nullopt;
  return row->to;
}

// A character joins the last starter unless something between them blocks it: a starter, or a mark of its class or
// above.
std::vector<uint32_t> compose_all(const std::vector<uint32_t>& chars) {
  std::vector<uint32_t> out;
  std::optional<size_t> starter;
  uint32_t last_class = 0;
  for (const uint32_t c : chars) {
    const uint32_t own_class = combining_class(c);
    if (starter && (out.size() == *starter + 1 || last_class < own_class)) {
      if (const auto joined = compose(out[*starter], c)) {
        out[*starter] = *joined;
        continue;
      }
    }
    if (own_class == 0) starter = out.size();
    last_class = own_class;
    out.push_back(c);
  }
  return out;
}

}  // namespace

Category category(uint32_t c) {
  if (c >= kCodePoints) return Category::other;
  return static_cast<Category>(kCategories[size_t{kCategoryPages[c >> 8]} << 8 | (c & 0xff)]);
}

uint32_t to_upper(uint32_t code_point) { return look_up(kUpper, code_point, code_point); }
uint32_t to_lower(uint32_t code_point) { return look_up(kLower, code_point, code_point); }

std::string to_nfc(std::string_view text) {
  std::vector<uint32_t> chars;
  bool may_change = false;
  for (std::string_view rest = text; !rest.empty();) {
    const Decoded c = decode_utf8(rest);
    if (c.bytes == 0) return std::string(text);
    rest.remove_prefix(c.bytes);
    may_change |= c.code_point >= kFirstChanging;
    decompose(c.code_point, chars);
  }
  if (!may_change) return std::string(text);
  order(chars);
  std::string out;
  for (const uint32_t c : compose_all(chars)) append_utf8(out, c);
  return out;
}

}  // namespace sluice

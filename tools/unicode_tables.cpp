// Writes what base/unicode.cpp needs of Unicode's data as C++ tables, asking utf8proc for it. CMake compiles and runs
// this on the building machine: there is no utf8proc for wasm in Debian, and one table serves every build.
#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int32_t kEnd = 0x110000;
constexpr int32_t kPage = 256;
constexpr int32_t kHangul = 0xac00, kHangulEnd = 0xd7a4;  // composed by arithmetic

bool is_surrogate(int32_t c) { return c >= 0xd800 && c < 0xe000; }

std::vector<int32_t> decomposed(int32_t c) {
  std::array<utf8proc_int32_t, 64> buffer{};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  int boundary = 0;
  const auto n = utf8proc_decompose_char(c, buffer.data(), buffer.size(), options, &boundary);
  if (n < 1) std::abort();
  return {buffer.begin(), buffer.begin() + n};
}

std::vector<int32_t> composed(std::vector<int32_t> chars) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto n = utf8proc_normalize_utf32(chars.data(), static_cast<utf8proc_ssize_t>(chars.size()), options);
  if (n < 1) std::abort();
  chars.resize(static_cast<size_t>(n));
  return chars;
}

template <class Map>
void print_map(const char* type, const char* name, const Map& rows) {
  std::printf("inline constexpr %s %s[] = {\n", type, name);
  for (const auto& [from, to] : rows) std::printf("{%d,%s},", from, to.c_str());
  std::printf("};\n");
}

// As enum Category of base/unicode.h: utf8proc's numbers, and 0 for what is no letter, mark, number, punctuation,
// symbol or separator.
int category(int32_t c) {
  const int found = utf8proc_category(c);
  return found <= UTF8PROC_CATEGORY_ZP ? found : 0;
}

// Pages of 256 categories, equal ones once.
void print_categories() {
  std::map<std::string, size_t> pages;
  std::vector<size_t> index;
  std::string distinct;
  for (int32_t page = 0; page < kEnd; page += kPage) {
    std::string text;
    for (int32_t c = page; c < page + kPage; ++c) text += std::to_string(category(c)) + ",";
    const auto [found, added] = pages.emplace(text, pages.size());
    if (added) distinct += text + "\n";
    index.push_back(found->second);
  }
  std::printf("inline constexpr uint8_t kCategoryPages[] = {");
  for (const size_t page : index) std::printf("%zu,", page);
  std::printf("};\ninline constexpr uint8_t kCategories[] = {\n%s};\n", distinct.c_str());
}

void print_cases() {
  std::map<int32_t, std::string> upper, lower;
  for (int32_t c = 0; c < kEnd; ++c) {
    if (utf8proc_toupper(c) != c) upper[c] = std::to_string(utf8proc_toupper(c));
    if (utf8proc_tolower(c) != c) lower[c] = std::to_string(utf8proc_tolower(c));
  }
  print_map("CodePointPair", "kUpper", upper);
  print_map("CodePointPair", "kLower", lower);
}

void print_combining_classes() {
  std::map<int32_t, std::string> classes;
  for (int32_t c = 0; c < kEnd; ++c)
    if (const int value = utf8proc_get_property(c)->combining_class; value != 0) classes[c] = std::to_string(value);
  print_map("CodePointPair", "kCombiningClasses", classes);
}

void print_decompositions() {
  std::map<int32_t, std::string> rows;
  std::map<std::pair<int32_t, int32_t>, int32_t> pairs;
  std::string pool;
  size_t used = 0;
  for (int32_t c = 0; c < kEnd; ++c) {
    if (is_surrogate(c) || (c >= kHangul && c < kHangulEnd)) continue;
    const std::vector<int32_t> parts = decomposed(c);
    if (parts.size() == 1 && parts[0] == c) continue;
    rows[c] = std::to_string(used) + "," + std::to_string(parts.size());
    for (const int32_t part : parts) pool += std::to_string(part) + ",";
    used += parts.size();
    if (parts.size() == 1 || composed(parts) != std::vector<int32_t>{c}) continue;  // excluded from composition
    const std::vector<int32_t> first = composed({parts.begin(), parts.end() - 1});
    if (first.size() != 1) std::abort();
    pairs[{first[0], parts.back()}] = c;
  }
  print_map("Decomposition", "kDecompositions", rows);
  std::printf("inline constexpr uint32_t kDecomposed[] = {%s};\n", pool.c_str());
  std::printf("inline constexpr Composition kCompositions[] = {\n");
  for (const auto& [parts, c] : pairs) std::printf("{%d,%d,%d},", parts.first, parts.second, c);
  std::printf("};\n");
}

}  // namespace

int main() {
  std::printf("// Unicode %s, written by tools/unicode_tables.cpp.\n", utf8proc_unicode_version());
  print_categories();
  print_cases();
  print_combining_classes();
  print_decompositions();
  return 0;
}

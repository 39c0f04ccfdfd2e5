#include "model/adapters/name_pattern.h"

#include <array>
#include <bitset>
#include <utility>
#include <vector>

#include "base/text.h"

namespace sluice {

constexpr size_t kCharacters = 256;
constexpr size_t kMaxPatternBytes = 1024;
constexpr size_t kMaxPatternDepth = 32;  // of groups in groups

// One part of a pattern. With `characters` it is a single one of them; else it is one of `choices`, each of which is a
// sequence of parts.
struct NamePattern::Node {
  std::bitset<kCharacters> characters{};
  bool is_character = false;
  std::vector<std::vector<Node>> choices{};
  bool may_be_absent = false, may_repeat = false;
};

namespace {

using Node = NamePattern::Node;
using Characters = std::bitset<kCharacters>;
using Places = std::vector<bool>;  // by index into the name: whether a match may have reached it

Characters range(unsigned char first, unsigned char last) {
  Characters all;
  for (size_t c = first; c <= last; ++c) all.set(c);
  return all;
}

Characters one(char c) { return range(static_cast<unsigned char>(c), static_cast<unsigned char>(c)); }

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<Node> whole() {
    if (text_.size() > kMaxPatternBytes)
      return error(ErrorKind::unsupported, "a pattern of ", text_.size(), " bytes: want at most ", kMaxPatternBytes);
    if (!text_.empty() && text_.front() == '^') text_.remove_prefix(1);
    const bool escaped = text_.size() > 1 && text_[text_.size() - 2] == '\\';
    if (!text_.empty() && text_.back() == '$' && !escaped) text_.remove_suffix(1);
    TRY(Node root, choices(0));
    if (at_ != text_.size()) return unknown();
    return root;
  }

 private:
  bool ends() const { return at_ == text_.size(); }
  Error unknown() const {
    return error(ErrorKind::unsupported, "the pattern ", printable(std::string(text_)), ": character ", at_ + 1,
                 " begins a part that is not known here: want names, classes, groups and repetitions");
  }

  Result<Node> choices(size_t depth) {
    if (depth > kMaxPatternDepth) return unknown();
    Node node;
    node.choices.emplace_back();
    while (!ends() && text_[at_] != ')') {
      if (text_[at_] == '|') {
        ++at_;
        node.choices.emplace_back();
        continue;
      }
      TRY(Node part, repeated(depth));
      node.choices.back().push_back(std::move(part));
    }
    return node;
  }

  Result<Node> repeated(size_t depth) {
    TRY(Node part, single(depth));
    while (!ends() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?')) {
      const char how = text_[at_++];
      part.may_be_absent |= how != '+';
      part.may_repeat |= how != '?';
    }
    return part;
  }

  Result<Node> single(size_t depth) {
    Node part;
    if (text_[at_] == '(') {
      ++at_;
      if (text_.substr(at_, 2) == "?:") at_ += 2;
      TRY_ASSIGN(part, choices(depth + 1));
      if (ends()) return unknown();
      ++at_;
      return part;
    }
    part.is_character = true;
    TRY(part.characters, text_[at_] == '[' ? set() : character());
    return part;
  }

  // A character outside of a set.
  Result<Characters> character() {
    const char c = text_[at_];
    if (c == '\\') return escape();
    if (c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == '^' || c == '$') return unknown();
    ++at_;
    return c == '.' ? ~one('\n') : one(c);
  }

  Result<Characters> escape() {
    if (at_ + 1 == text_.size()) return unknown();
    const char c = text_[at_ + 1];
    if (is_word(c) && c != 'd' && c != 'w' && c != 's') return unknown();
    at_ += 2;
    if (c == 'd') return range('0', '9');
    if (c == 's') return one(' ') | range('\t', '\r');
    if (c == 'w') return range('a', 'z') | range('A', 'Z') | range('0', '9') | one('_');
    return one(c);
  }

  Result<Characters> set() {
    const size_t begins = at_++;
    const bool inverted = !ends() && text_[at_] == '^';
    if (inverted) ++at_;
    Characters all;
    for (bool first = true; !ends() && (first || text_[at_] != ']'); first = false) {
      if (text_[at_] == '\\') {
        TRY(const Characters some, escape());
        all |= some;
        continue;
      }
      const char from = text_[at_++];
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        const char to = text_[at_ + 1];
        at_ += 2;
        all |= range(static_cast<unsigned char>(from), static_cast<unsigned char>(to));
      } else {
        all |= one(from);
      }
    }
    if (ends()) {
      at_ = begins;
      return unknown();
    }
    ++at_;
    return inverted ? ~all : all;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Places after(const Node& node, const Places& before, std::string_view name);

Places after_once(const Node& node, const Places& before, std::string_view name) {
  Places reached(before.size());
  if (node.is_character) {
    for (size_t i = 0; i < name.size(); ++i)
      if (before[i] && node.characters.test(static_cast<unsigned char>(name[i]))) reached[i + 1] = true;
    return reached;
  }
  for (const std::vector<Node>& choice : node.choices) {
    Places places = before;
    for (const Node& part : choice) places = after(part, places, name);
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i]) reached[i] = true;
  }
  return reached;
}

// The places that a match may reach from any of `before`.
Places after(const Node& node, const Places& before, std::string_view name) {
  Places reached = after_once(node, before, name);
  for (bool grows = node.may_repeat; grows;) {
    grows = false;
    const Places further = after_once(node, reached, name);
    for (size_t i = 0; i < further.size(); ++i) {
      if (!further[i] || reached[i]) continue;
      reached[i] = true;
      grows = true;
    }
  }
  if (node.may_be_absent)
    for (size_t i = 0; i < before.size(); ++i)
      if (before[i]) reached[i] = true;
  return reached;
}

}  // namespace

Result<NamePattern> NamePattern::parse(std::string_view pattern) {
  TRY(Node root, PatternParser(pattern).whole());
  return NamePattern(std::make_shared<const Node>(std::move(root)));
}

bool NamePattern::matches(std::string_view name) const {
  Places begin(name.size() + 1);
  begin[0] = true;
  return after(*root_, begin, name).back();
}

}  // namespace sluice

#include "text/grammar/json_parts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "text/grammar/code_points.h"
#include "text/grammar/markers.h"

namespace sluice {
namespace {

constexpr uint32_t kMostBlanks = 32;

ByteSet set_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.add(static_cast<uint8_t>(byte));
  return set;
}
ByteSet plain_ascii() { return ByteSet::range(0x20, 0x7f) - set_of("\"\\"); }

// \uXXXX. A surrogate stands only in a pair.
Expression code_escape(GrammarBuilder& builder) {
  const auto hex = [&] { return builder.bytes(set_of("0123456789abcdefABCDEF")); };
  const Expression any = builder.sequence({builder.bytes(set_of("0123456789abcefABCEF")), hex(), hex(), hex()});
  const Expression low =
      builder.sequence({builder.bytes(set_of("dD")), builder.bytes(set_of("01234567")), hex(), hex()});
  const Expression pair =
      builder.sequence({builder.bytes(set_of("dD")), builder.bytes(set_of("89abAB")), hex(), hex(), builder.text("\\u"),
                        builder.bytes(set_of("dD")), builder.bytes(set_of("cdefCDEF")), hex(), hex()});
  return builder.sequence({builder.text("u"), builder.either({any, low, pair})});
}

Expression string_character(GrammarBuilder& builder) {
  CodePoints plain = CodePoints::range(0x20, kMaxCodePoint);
  plain = plain.without(CodePoints::of('"')).without(CodePoints::of('\\'));
  const Expression escape = builder.sequence(
      {builder.text("\\"), builder.either({builder.bytes(set_of("\"\\/bfnrt")), code_escape(builder)})});
  return builder.either({utf8_character(builder, plain), escape});
}

// The names as a tree, and what may stand in a string's text at each of its nodes.
class NameTree {
 public:
  enum class Place : uint8_t { character, escape, code, tail1, tail2, tail3, tail_e0, tail_ed, tail_f0, tail_f4 };
  struct Node {
    Place place = Place::character;
    bool ends = false;
    std::vector<std::pair<uint8_t, uint32_t>> children = {};
  };

  explicit NameTree(std::vector<std::string> names) {
    std::ranges::sort(names);
    for (const std::string& name : names) {
      uint32_t at = 0;
      uint32_t digits = 0;  // of \uXXXX that are to come
      const std::string quoted = quoted_json(name);
      for (const char c : std::string_view(quoted).substr(1, quoted.size() - 2)) {
        const Place place = behind(nodes_[at].place, static_cast<uint8_t>(c), digits);
        at = child(at, static_cast<uint8_t>(c), place);
      }
      nodes_[at].ends = true;
    }
  }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  static Place behind(Place place, uint8_t byte, uint32_t& digits) {
    switch (place) {
      case Place::character:
        if (byte == '\\') return Place::escape;
        if (byte < 0x80) return Place::character;
        if (byte < 0xe0) return Place::tail1;
        if (byte < 0xf0) return byte == 0xe0 ? Place::tail_e0 : byte == 0xed ? Place::tail_ed : Place::tail2;
        return byte == 0xf0 ? Place::tail_f0 : byte == 0xf4 ? Place::tail_f4 : Place::tail3;
      case Place::escape: digits = 4; return byte == 'u' ? Place::code : Place::character;
      case Place::code: return --digits == 0 ? Place::character : Place::code;
      case Place::tail1: return Place::character;
      case Place::tail2:
      case Place::tail_e0:
      case Place::tail_ed: return Place::tail1;
      case Place::tail3:
      case Place::tail_f0:
      case Place::tail_f4: return Place::tail2;
    }
    return Place::character;
  }
  // An escape is sorted among other names, so a child may be any of them.
  uint32_t child(uint32_t at, uint8_t byte, Place place) {
    for (size_t i = nodes_[at].children.size(); i-- > 0;)
      if (nodes_[at].children[i].first == byte) return nodes_[at].children[i].second;
    const auto made = static_cast<uint32_t>(nodes_.size());
    nodes_[at].children.emplace_back(byte, made);
    nodes_.push_back({.place = place});
    return made;
  }
  std::vector<Node> nodes_{1};
};

// Makes the nodes of a string that leaves the tree of names somewhere.
class StringExcept {
 public:
  StringExcept(GrammarBuilder& builder, RuleId rest, uint32_t next) : builder_(&builder) {
    rest_ = builder.emit_call(rest, next);
    quote_ = builder.emit_bytes(ByteSet::of('"'), next);
    const uint32_t tail1 = builder.emit_bytes(ByteSet::range(0x80, 0xbf), rest_);
    const uint32_t tail2 = builder.emit_bytes(ByteSet::range(0x80, 0xbf), tail1);
    const uint32_t tail3 = builder.emit_bytes(ByteSet::range(0x80, 0xbf), tail2);
    const auto special = [&](uint32_t first, uint32_t last, uint32_t to) {
      return builder.emit_bytes(ByteSet::range(first, last), to);
    };
    leads_ = {{ByteSet::range(0xc2, 0xdf), tail1},
              {ByteSet::of(0xe0), special(0xa0, 0xbf, tail1)},
              {ByteSet::range(0xe1, 0xec) | ByteSet::range(0xee, 0xef), tail2},
              {ByteSet::of(0xed), special(0x80, 0x9f, tail1)},
              {ByteSet::of(0xf0), special(0x90, 0xbf, tail2)},
              {ByteSet::range(0xf1, 0xf3), tail3},
              {ByteSet::of(0xf4), special(0x80, 0x8f, tail2)}};
    tail1_ = tail1;
    tail2_ = tail2;
    std::vector<uint32_t> all;
    all.reserve(leads_.size());
    for (const auto& [set, to] : leads_) all.push_back(builder.emit_bytes(set, to));
    wide_ = builder.emit_split(std::move(all));
    escape_ = builder.emit_bytes(ByteSet::of('\\'), builder.emit_bytes(short_escapes(), rest_));
  }

  uint32_t make(const NameTree& tree) {
    std::vector<uint32_t> first(tree.nodes().size());
    for (size_t i = first.size(); i-- > 0;) {
      const NameTree::Node& node = tree.nodes()[i];
      std::vector<uint32_t> branches;
      ByteSet taken;
      for (const auto& [byte, child] : node.children) {
        branches.push_back(builder_->emit_bytes(ByteSet::of(byte), first[child]));
        taken.add(byte);
      }
      add_others(node, taken, branches);
      first[i] = builder_->emit_split(std::move(branches));
    }
    return first[0];
  }

 private:
  // Of those that a name is written with: \u and \/ might spell one in another way.
  static ByteSet short_escapes() { return set_of("\"\\bfnrt"); }

  void add_bytes(const ByteSet& set, uint32_t to, std::vector<uint32_t>& branches) {
    if (!set.empty()) branches.push_back(builder_->emit_bytes(set, to));
  }

  void add_others(const NameTree::Node& node, const ByteSet& taken, std::vector<uint32_t>& branches) {
    using Place = NameTree::Place;
    switch (node.place) {
      case Place::character:
        add_bytes(plain_ascii() - taken, rest_, branches);
        if ((taken - ByteSet::range(0, 0x7f)).empty())
          branches.push_back(wide_);
        else
          for (const auto& [set, to] : leads_) add_bytes(set - taken, to, branches);
        if (!taken.has('\\')) branches.push_back(escape_);
        if (!node.ends) branches.push_back(quote_);
        break;
      case Place::escape: add_bytes(short_escapes() - taken, rest_, branches); break;
      case Place::code: break;
      case Place::tail1: add_bytes(ByteSet::range(0x80, 0xbf) - taken, rest_, branches); break;
      case Place::tail2: add_bytes(ByteSet::range(0x80, 0xbf) - taken, tail1_, branches); break;
      case Place::tail3: add_bytes(ByteSet::range(0x80, 0xbf) - taken, tail2_, branches); break;
      case Place::tail_e0: add_bytes(ByteSet::range(0xa0, 0xbf) - taken, tail1_, branches); break;
      case Place::tail_ed: add_bytes(ByteSet::range(0x80, 0x9f) - taken, tail1_, branches); break;
      case Place::tail_f0: add_bytes(ByteSet::range(0x90, 0xbf) - taken, tail2_, branches); break;
      case Place::tail_f4: add_bytes(ByteSet::range(0x80, 0x8f) - taken, tail2_, branches); break;
    }
  }

  GrammarBuilder* builder_;
  uint32_t rest_ = 0, quote_ = 0, tail1_ = 0, tail2_ = 0, wide_ = 0, escape_ = 0;
  std::vector<std::pair<ByteSet, uint32_t>> leads_;
};

ByteSet gemma4_key_bytes() {
  return ByteSet::range('a', 'z') | ByteSet::range('A', 'Z') | ByteSet::range('0', '9') | set_of("_-.");
}

// A word of the bytes, not empty and none of `words`. Its nodes are a tree of the words that `bytes` can spell.
Expression word_except(GrammarBuilder& builder, std::vector<std::string> words, const ByteSet& bytes) {
  std::ranges::sort(words);
  uint64_t size = 8;
  for (const std::string& word : words) size += 2 * (word.size() + 1);
  const auto make = [words = std::move(words), bytes](GrammarBuilder& into, uint32_t next) {
    struct Place {
      std::map<uint8_t, size_t> behind = {};
      bool is_word = false;
    };
    std::vector<Place> places(1);
    for (const std::string& word : words) {
      size_t at = 0;
      for (const char c : word) {
        const auto [child, is_new] = places[at].behind.emplace(static_cast<uint8_t>(c), places.size());
        at = child->second;
        if (is_new) places.emplace_back();
      }
      places[at].is_word = true;
    }
    const uint32_t rest = into.emit_loop(bytes, next);
    std::vector<uint32_t> first(places.size());
    for (size_t i = places.size(); i-- > 0;) {
      std::vector<uint32_t> branches;
      ByteSet others = bytes;
      for (const auto& [byte, child] : places[i].behind) {
        others.remove(byte);
        if (bytes.has(byte)) branches.push_back(into.emit_bytes(ByteSet::of(byte), first[child]));
      }
      if (!others.empty()) branches.push_back(into.emit_bytes(others, rest));
      if (i > 0 && !places[i].is_word) branches.push_back(next);
      first[i] = into.emit_split(std::move(branches));
    }
    return first[0];
  };
  return builder.made(static_cast<uint32_t>(std::min<uint64_t>(size, kMaxGrammarNodes)), make);
}

}  // namespace

CodePoints raw_characters() {
  CodePoints set = CodePoints::range(0x20, kMaxCodePoint);
  set.add('\t', '\n');
  return set;
}

std::string quoted_json(std::string_view text) { return write_json(Json(text)); }

JsonParts::JsonParts(GrammarBuilder& builder, ValueNotation notation)
    : builder_(&builder),
      notation_(notation),
      blanks_(builder.add_rule("blanks")),
      character_(builder.add_rule("character")),
      string_(builder.add_rule("string")),
      string_rest_(builder.add_rule("rest of a string")),
      value_(builder.add_rule("value")),
      object_(builder.add_rule("object")),
      array_(builder.add_rule("array")),
      comma_(builder.sequence({builder.text(","), builder.call(blanks_)})),
      colon_(builder.text(":")) {
  if (notation == ValueNotation::json)
    define_json();
  else
    define_gemma4();
  define_values();
}

void JsonParts::define_json() {
  const Expression indent = builder_->repeat(builder_->bytes(set_of(" \t")), 0, kMostBlanks);
  const Expression line = builder_->sequence({builder_->text("\n"), indent});
  builder_->define(blanks_, builder_->optional(builder_->either({builder_->text(" "), line})));
  colon_ = builder_->sequence({colon_, builder_->optional(builder_->text(" "))});
  const Expression character = string_character(*builder_);
  builder_->define(character_, character);
  builder_->define(string_rest_,
                   builder_->sequence({builder_->repeat(character, 0, kUnbounded), builder_->text("\"")}));
  builder_->define(string_, builder_->sequence({builder_->text("\""), builder_->call(string_rest_)}));
}

// Strings are raw text between tokens, and there are no blanks.
void JsonParts::define_gemma4() {
  builder_->define(blanks_, builder_->empty());
  const Expression character = utf8_character(*builder_, raw_characters());
  builder_->define(character_, character);
  builder_->define(string_rest_, builder_->empty());
  builder_->define(string_, quoted(builder_->repeat(character, 0, kUnbounded)));
}

void JsonParts::define_values() {
  builder_->define(value_, builder_->either({object(), array(), string(), number(), boolean(), null()}));
  const Expression members =
      builder_->list({{.expression = member(key_except({}), value()), .repeated = true}}, comma_);
  builder_->define(object_,
                   builder_->sequence({builder_->text("{"), blanks(), members, blanks(), builder_->text("}")}));
  const Expression items = builder_->list({{.expression = value(), .repeated = true}}, comma_);
  builder_->define(array_, builder_->sequence({builder_->text("["), blanks(), items, blanks(), builder_->text("]")}));
}

Expression JsonParts::integer() {
  const Expression digits = builder_->repeat(builder_->bytes(ByteSet::range('0', '9')), 0, kUnbounded);
  const Expression natural =
      builder_->either({builder_->text("0"), builder_->sequence({builder_->bytes(ByteSet::range('1', '9')), digits})});
  return builder_->sequence({builder_->optional(builder_->text("-")), natural});
}

Expression JsonParts::number() {
  const Expression digits = builder_->repeat(builder_->bytes(ByteSet::range('0', '9')), 1, kUnbounded);
  const Expression fraction = builder_->optional(builder_->sequence({builder_->text("."), digits}));
  const Expression exponent = builder_->optional(
      builder_->sequence({builder_->bytes(set_of("eE")), builder_->optional(builder_->bytes(set_of("+-"))), digits}));
  return builder_->sequence({integer(), fraction, exponent});
}

Expression JsonParts::boolean() { return builder_->words({"true", "false"}); }

Expression JsonParts::quoted(Expression contents) {
  const std::string quote = notation_ == ValueNotation::json ? "\"" : marker_text(kFirstInnerMarker);
  return builder_->sequence({builder_->text(quote), contents, builder_->text(quote)});
}

std::string JsonParts::written(const Json& value) const {
  if (notation_ == ValueNotation::json || !value.is_string()) return write_json(value);
  return marker_text(kFirstInnerMarker) + value.as_string() + marker_text(kFirstInnerMarker);
}

Expression JsonParts::literal(const Json& value) {
  if (!value.is_array() && !value.is_object()) return builder_->text(written(value));
  std::vector<ListItem> items;
  if (value.is_array())
    for (const Json& one : value.as_array()) items.push_back({.expression = literal(one), .required = true});
  else
    for (const auto& [name, one] : value.as_object())
      items.push_back({.expression = member(name, literal(one)), .required = true});
  const Expression list = builder_->list(std::move(items), comma_);
  const bool is_array = value.is_array();
  return builder_->sequence(
      {builder_->text(is_array ? "[" : "{"), blanks(), list, blanks(), builder_->text(is_array ? "]" : "}")});
}

// Gemma's keys have no quotes, unless they would be misread.
std::string JsonParts::key(std::string_view name) const {
  if (notation_ == ValueNotation::json) return quoted_json(name);
  const bool is_plain_key = !name.empty() && std::ranges::all_of(name, [](char c) {
    return gemma4_key_bytes().has(static_cast<uint8_t>(c));
  });
  return is_plain_key ? std::string(name) : written(Json(name));
}

Expression JsonParts::member(std::string_view name, Expression value) {
  return member(builder_->text(key(name)), value);
}

Expression JsonParts::member(Expression key, Expression value) { return builder_->sequence({key, colon_, value}); }

Expression JsonParts::key_except(std::vector<std::string> names) {
  if (notation_ == ValueNotation::gemma4) return word_except(*builder_, std::move(names), gemma4_key_bytes());
  if (names.empty()) return string();
  uint64_t size = 64;
  for (const std::string& name : names) size += 4 * (name.size() + 1);
  const auto tree = std::make_shared<const NameTree>(std::move(names));
  const auto make = [tree, rest = string_rest_](GrammarBuilder& builder, uint32_t next) {
    return StringExcept(builder, rest, next).make(*tree);
  };
  return builder_->sequence({builder_->text("\""), builder_->made(static_cast<uint32_t>(size), make)});
}

}  // namespace sluice

#include "text/grammar/grammar_builder.h"

#include <algorithm>
#include <utility>

#include "text/grammar/grammar_check.h"

namespace sluice {
namespace {

constexpr uint16_t kMaxHeight = 1000;  // of expressions in each other: compile() calls itself so often
constexpr uint32_t kMaxUnrolled = 96;  // nodes of a counted loop that is written out

// The classes of bytes that no set tells apart.
void class_bytes(const std::vector<ByteSet>& sets, Grammar& grammar) {
  std::map<std::vector<bool>, uint8_t> seen;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::vector<bool> in;
    in.reserve(sets.size());
    for (const ByteSet& set : sets) in.push_back(set.has(static_cast<uint8_t>(byte)));
    const auto at = seen.emplace(std::move(in), static_cast<uint8_t>(seen.size())).first;
    grammar.class_of[byte] = at->second;
  }
  grammar.classes = static_cast<uint32_t>(seen.size());
  for (const ByteSet& set : sets) {
    std::vector<uint8_t> classes;
    for (uint32_t byte = 0; byte < 256; ++byte)
      if (set.has(static_cast<uint8_t>(byte))) classes.push_back(grammar.class_of[byte]);
    std::ranges::sort(classes);
    classes.erase(std::ranges::unique(classes).begin(), classes.end());
    grammar.sets.push_back(std::move(classes));
  }
}

// The texts as a tree of their beginnings. Children come behind their parents.
struct WordTree {
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;
    bool ends = false;
  };
  std::vector<Node> nodes{1};

  explicit WordTree(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      uint32_t at = 0;
      for (const char c : word) at = child(at, static_cast<uint8_t>(c));
      nodes[at].ends = true;
    }
  }
  // `words` are sorted, so a shared beginning is always the last child.
  uint32_t child(uint32_t at, uint8_t byte) {
    auto& children = nodes[at].children;
    if (!children.empty() && children.back().first == byte) return children.back().second;
    const auto made = static_cast<uint32_t>(nodes.size());
    children.emplace_back(byte, made);
    nodes.emplace_back();
    return made;
  }
};

}  // namespace

GrammarBuilder::GrammarBuilder() {
  expressions_.push_back({.kind = Kind::nothing, .size = 1});
  expressions_.push_back({.kind = Kind::empty});
  grammar_.nodes.push_back({});  // kEnd
}

Expression GrammarBuilder::add(Node node) {
  if (expressions_.size() >= kMaxGrammarNodes) {
    too_large_ = true;
    return kNothing;
  }
  uint64_t size = node.size;
  for (const Expression part : node.parts) {
    node.height = std::max<uint16_t>(node.height, expressions_[part].height + 1);
    size += expressions_[part].size;
  }
  node.size = static_cast<uint32_t>(std::min<uint64_t>(size, kMaxGrammarNodes));
  if (node.height > kMaxHeight) {
    too_deep_ = true;
    return kNothing;
  }
  expressions_.push_back(std::move(node));
  return static_cast<Expression>(expressions_.size() - 1);
}

Expression GrammarBuilder::bytes(const ByteSet& set) {
  if (set.empty()) return kNothing;
  const auto [at, is_new] = set_numbers_.emplace(set, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return add({.kind = Kind::bytes, .size = 1, .of = at->second});
}

Expression GrammarBuilder::text(std::string_view text) {
  if (text.empty()) return kEmpty;
  texts_.emplace_back(text);
  return add(
      {.kind = Kind::text, .size = static_cast<uint32_t>(text.size()), .of = static_cast<uint32_t>(texts_.size() - 1)});
}

Expression GrammarBuilder::sequence(std::vector<Expression> parts) {
  if (std::ranges::find(parts, kNothing) != parts.end()) return kNothing;
  std::erase(parts, kEmpty);
  if (parts.empty()) return kEmpty;
  if (parts.size() == 1) return parts.front();
  return add({.kind = Kind::sequence, .parts = std::move(parts)});
}

Expression GrammarBuilder::either(std::vector<Expression> parts) {
  std::erase(parts, kNothing);
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts.front();
  return add({.kind = Kind::either, .size = 1, .parts = std::move(parts)});
}

Expression GrammarBuilder::repeat(Expression part, uint32_t least, uint32_t most) {
  CHECK(least <= most);
  if (most == 0 || part == kEmpty) return kEmpty;
  if (part == kNothing) return least == 0 ? kEmpty : kNothing;
  if (least == 1 && most == 1) return part;
  return add({.kind = Kind::repeat, .size = 2, .least = least, .most = most, .parts = {part}});
}

Expression GrammarBuilder::words(std::vector<std::string> words) {
  if (words.empty()) return kNothing;
  if (words.size() == 1) return text(words.front());
  std::ranges::sort(words);
  uint64_t size = 0;
  for (const std::string& word : words) size += word.size() + 1;
  words_.push_back(std::move(words));
  return add({.kind = Kind::words,
              .size = static_cast<uint32_t>(std::min<uint64_t>(size, kMaxGrammarNodes)),
              .of = static_cast<uint32_t>(words_.size() - 1)});
}

Expression GrammarBuilder::list(std::vector<ListItem> items, Expression separator, uint32_t least) {
  for (const ListItem& item : items)
    if (item.required && item.expression == kNothing) return kNothing;
  std::erase_if(items, [](const ListItem& item) { return item.expression == kNothing; });
  std::vector<Expression> parts;
  parts.reserve(items.size() + 1);
  for (const ListItem& item : items) parts.push_back(item.expression);
  parts.push_back(separator);
  lists_.push_back({std::move(items), separator, least});
  return add({.kind = Kind::list, .of = static_cast<uint32_t>(lists_.size() - 1), .parts = std::move(parts)});
}

Expression GrammarBuilder::made(uint32_t size, std::function<uint32_t(GrammarBuilder&, uint32_t)> make) {
  makers_.push_back(std::move(make));
  return add({.kind = Kind::made, .size = size, .of = static_cast<uint32_t>(makers_.size() - 1)});
}

RuleId GrammarBuilder::add_rule(std::string name) {
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

Expression GrammarBuilder::call(RuleId rule) { return add({.kind = Kind::call, .size = 1, .of = rule}); }

uint32_t GrammarBuilder::emit(GrammarNode::Kind kind, uint32_t of, uint32_t next) {
  if (grammar_.nodes.size() >= kMaxGrammarNodes) {
    too_large_ = true;
    return Grammar::kEnd;
  }
  grammar_.nodes.push_back({.kind = kind, .of = of, .next = next});
  return static_cast<uint32_t>(grammar_.nodes.size() - 1);
}

uint32_t GrammarBuilder::reserve_split() {
  const auto split = static_cast<uint32_t>(split_branches_.size());
  split_branches_.emplace_back();
  return emit(GrammarNode::Kind::split, split, Grammar::kEnd);
}

void GrammarBuilder::fill_split(uint32_t node, std::vector<uint32_t> branches) {
  if (!too_large_) split_branches_[grammar_.nodes[node].of] = std::move(branches);
}

uint32_t GrammarBuilder::emit_split(std::vector<uint32_t> branches) {
  const uint32_t node = reserve_split();
  fill_split(node, std::move(branches));
  return node;
}

uint32_t GrammarBuilder::emit_bytes(const ByteSet& set, uint32_t next) {
  const auto [at, is_new] = set_numbers_.emplace(set, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return emit(GrammarNode::Kind::bytes, at->second, next);
}

uint32_t GrammarBuilder::emit_call(RuleId rule, uint32_t next) {
  const uint32_t node = emit(GrammarNode::Kind::call, 0, next);
  if (!too_large_) calls_.emplace_back(node, rule);
  return node;
}

uint32_t GrammarBuilder::emit_loop(const ByteSet& set, uint32_t next) {
  const uint32_t loop = reserve_split();
  fill_split(loop, {emit_bytes(set, loop), next});
  return loop;
}

uint32_t GrammarBuilder::compile(Expression expression, uint32_t next) {
  if (too_large_) return next;
  const Node& node = expressions_[expression];
  switch (node.kind) {
    case Kind::nothing: return emit_split({});
    case Kind::empty: return next;
    case Kind::bytes: return emit(GrammarNode::Kind::bytes, node.of, next);
    case Kind::text: {
      const std::string& text = texts_[node.of];
      for (size_t i = text.size(); i-- > 0;) next = emit_bytes(ByteSet::of(static_cast<uint8_t>(text[i])), next);
      return next;
    }
    case Kind::sequence:
      for (size_t i = node.parts.size(); i-- > 0;) next = compile(node.parts[i], next);
      return next;
    case Kind::either: {
      std::vector<uint32_t> branches;
      branches.reserve(node.parts.size());
      for (const Expression part : node.parts) branches.push_back(compile(part, next));
      return emit_split(std::move(branches));
    }
    case Kind::repeat: return compile_repeat(node, next);
    case Kind::words: return compile_words(words_[node.of], next);
    case Kind::list: return compile_list(lists_[node.of], next);
    case Kind::made: return makers_[node.of](*this, next);
    case Kind::call: return emit_call(node.of, next);
  }
  return next;
}

// A short loop is written out; a long one counts at run time.
uint32_t GrammarBuilder::compile_repeat(const Node& node, uint32_t next) {
  const Expression part = node.parts.front();
  const bool endless = node.most == kUnbounded;
  const uint64_t copies = endless ? node.least : node.most;
  if (copies * expressions_[part].size > kMaxUnrolled && copies > 1) {
    grammar_.loops.push_back({.body = compile(part, Grammar::kEnd), .least = node.least, .most = node.most});
    return emit(GrammarNode::Kind::loop, static_cast<uint32_t>(grammar_.loops.size() - 1), next);
  }
  uint32_t at = next;
  if (endless) {
    at = reserve_split();
    fill_split(at, {compile(part, at), next});
  } else {
    for (uint32_t i = node.least; i < node.most; ++i) at = emit_split({compile(part, at), next});
  }
  for (uint32_t i = 0; i < node.least; ++i) at = compile(part, at);
  return at;
}

uint32_t GrammarBuilder::compile_words(const std::vector<std::string>& words, uint32_t next) {
  const WordTree tree(words);
  std::vector<uint32_t> first(tree.nodes.size());
  for (size_t i = tree.nodes.size(); i-- > 0;) {
    std::vector<uint32_t> branches;
    for (const auto& [byte, child] : tree.nodes[i].children)
      branches.push_back(emit_bytes(ByteSet::of(byte), first[child]));
    if (tree.nodes[i].ends) branches.push_back(next);
    first[i] = branches.size() == 1 ? branches.front() : emit_split(std::move(branches));
  }
  return first[0];
}

// Two chains of nodes: `begun` of those behind an item, which want a separator before the next item, and `fresh`.
uint32_t GrammarBuilder::compile_list(const List& list, uint32_t next) {
  uint32_t begun = next;
  uint32_t fresh = list.least == 0 ? next : emit_split({});
  for (size_t i = list.items.size(); i-- > 0;) {
    const ListItem& item = list.items[i];
    const uint32_t behind = item.repeated ? reserve_split() : begun;
    const uint32_t own = compile(item.expression, behind);
    const uint32_t separated = compile(list.separator, own);
    if (item.repeated) fill_split(behind, {separated, begun});
    begun = item.required ? separated : item.repeated ? behind : emit_split({separated, begun});
    fresh = item.required ? own : emit_split({own, fresh});
  }
  return fresh;
}

Status GrammarBuilder::check_size() const {
  if (too_deep_)
    return error(ErrorKind::invalid, "the grammar nests more than ", kMaxHeight, " expressions: want fewer");
  if (too_large_)
    return error(ErrorKind::invalid, "the grammar takes more than ", kMaxGrammarNodes, " nodes: want a smaller one");
  return {};
}

Result<Grammar> GrammarBuilder::finish(RuleId main) {
  for (Rule& rule : rules_) rule.start = compile(rule.expression, Grammar::kEnd);
  TRY_STATUS(check_size());
  for (const auto& [node, rule] : calls_) grammar_.nodes[node].of = rules_[rule].start;
  for (const std::vector<uint32_t>& branches : split_branches_) {
    grammar_.branches.insert(grammar_.branches.end(), branches.begin(), branches.end());
    grammar_.branch_ends.push_back(static_cast<uint32_t>(grammar_.branches.size()));
  }
  grammar_.start = rules_[main].start;
  class_bytes(sets_, grammar_);
  GrammarCheck check(grammar_);
  check.mark_dead();
  if (grammar_.nodes[grammar_.start].dead) return error(ErrorKind::invalid, "no text satisfies it: want one that can");
  if (const std::optional<uint32_t> node = check.left_recursion()) {
    for (const Rule& rule : rules_)
      if (rule.start == *node)
        return error(ErrorKind::unsupported, rule.name, " begins with itself: want it to read something first");
    return error(ErrorKind::unsupported, "a rule begins with itself: want it to read something first");
  }
  if (check.repeats_nothing())
    return error(ErrorKind::unsupported,
                 "a part that may be empty is repeated up to a large number: want one that is never empty");
  return std::move(grammar_);
}

}  // namespace sluice

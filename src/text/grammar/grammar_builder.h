// GrammarBuilder: makes a Grammar of expressions. An expression is a number; smaller ones are joined to larger ones.
//
// Nothing here fails on the way. finish() says what was wrong: too large, nested too deep, or a rule that calls itself
// before it has read anything. Parts that no text can satisfy are left out; a grammar without any text is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace sluice {

using Expression = uint32_t;
using RuleId = uint32_t;

// An item of GrammarBuilder::list().
struct ListItem {
  Expression expression = 0;
  bool required = false;
  bool repeated = false;  // any number of times
};

class GrammarBuilder {
 public:
  GrammarBuilder();

  Expression nothing() { return kNothing; }  // no text, not even the empty one
  Expression empty() { return kEmpty; }
  Expression bytes(const ByteSet& set);
  Expression text(std::string_view text);
  Expression sequence(std::vector<Expression> parts);
  Expression either(std::vector<Expression> parts);
  Expression repeat(Expression part, uint32_t least, uint32_t most);
  Expression optional(Expression part) { return repeat(part, 0, 1); }
  // One of the texts; beginnings that they share are read once.
  Expression words(std::vector<std::string> words);
  // The items in order, `separator` between two of them. Some that are not required may be missing, but not more than
  // leaves `least` (0 or 1).
  Expression list(std::vector<ListItem> items, Expression separator, uint32_t least = 0);
  // What `make` makes of nodes: it is given what follows, and returns the first node. `size`: of nodes, about.
  Expression made(uint32_t size, std::function<uint32_t(GrammarBuilder&, uint32_t next)> make);

  RuleId add_rule(std::string name);
  void define(RuleId rule, Expression expression) { rules_[rule].expression = expression; }
  Expression call(RuleId rule);

  // For made(): nodes.
  uint32_t emit_split(std::vector<uint32_t> branches);
  uint32_t emit_bytes(const ByteSet& set, uint32_t next);
  uint32_t emit_call(RuleId rule, uint32_t next);
  uint32_t emit_loop(const ByteSet& set, uint32_t next);  // any number of the bytes

  // Fails once there is too much of it for finish(): a source that long need not be read to its end.
  Status check_size() const;
  Result<Grammar> finish(RuleId main);

 private:
  enum class Kind : uint8_t { nothing, empty, bytes, text, sequence, either, repeat, words, list, made, call };
  struct Node {
    Kind kind = Kind::nothing;
    uint16_t height = 0;
    uint32_t size = 0;  // nodes that it becomes, about
    uint32_t of = 0;    // index in what holds the kind's contents
    uint32_t least = 0, most = 0;
    std::vector<Expression> parts = {};
  };
  struct Rule {
    std::string name;
    Expression expression = kNothing;
    uint32_t start = 0;
  };
  struct List {
    std::vector<ListItem> items;
    Expression separator;
    uint32_t least;
  };
  static constexpr Expression kNothing = 0, kEmpty = 1;

  Expression add(Node node);
  uint32_t emit(GrammarNode::Kind kind, uint32_t of, uint32_t next);
  uint32_t reserve_split();
  void fill_split(uint32_t node, std::vector<uint32_t> branches);
  // The first node of the expression when `next` follows it.
  uint32_t compile(Expression expression, uint32_t next);
  uint32_t compile_repeat(const Node& node, uint32_t next);
  uint32_t compile_words(const std::vector<std::string>& words, uint32_t next);
  uint32_t compile_list(const List& list, uint32_t next);

  std::vector<Node> expressions_;
  std::vector<ByteSet> sets_;
  std::map<ByteSet, uint32_t> set_numbers_;
  std::vector<std::string> texts_;
  std::vector<std::vector<std::string>> words_;
  std::vector<List> lists_;
  std::vector<std::function<uint32_t(GrammarBuilder&, uint32_t)>> makers_;
  std::vector<Rule> rules_;
  std::vector<std::pair<uint32_t, RuleId>> calls_;  // nodes whose rule is not yet compiled
  std::vector<std::vector<uint32_t>> split_branches_;
  Grammar grammar_;
  bool too_large_ = false;
  bool too_deep_ = false;
};

}  // namespace sluice

#include "text/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/unicode.h"
#include "text/grammar/automaton.h"
#include "text/grammar/code_points.h"
#include "text/grammar/json_formats.h"
#include "text/grammar/number_range.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_terms.h"

namespace sluice {
namespace {

constexpr uint64_t kMaxSchemas = 200'000;  // looked at while one is compiled
constexpr double kMaxCount = 1e9;
constexpr uint64_t kMaxCountedRules = 20'000;  // of the members of one object whose number is bounded
constexpr int64_t kMostRemainders = 1000;
constexpr int64_t kMostMultiples = 10'000;  // that are written out

uint64_t characters_of(std::string_view text) {
  uint64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(std::max(1u, decode_utf8(text).bytes));
  return count;
}

class SchemaCompiler {
 public:
  SchemaCompiler(GrammarBuilder& builder, JsonParts& parts, const Json& root, const SchemaStyle& style)
      : terms_(root), builder_(builder), parts_(parts), style_(style) {}

  Result<RuleId> compile(const Json& main, const std::string& path) {
    is_raw_ = style_.raw_text.has_value();
    const RuleId first = rule_of(&main, path);
    // Rules are compiled one after another, so that references, also circular ones, take no stack.
    while (!open_.empty()) {
      const Open next = std::move(open_.front());
      open_.pop_front();
      is_raw_ = next.is_raw;
      TRY(const Expression expression, schema(*next.schema, next.path, 0));
      builder_.define(next.rule, expression);
    }
    return first;
  }

 private:
  struct Open {
    const Json* schema;
    std::string path;
    RuleId rule;
    bool is_raw;
  };
  struct Range {
    uint32_t least = 0, most = kUnbounded;
  };

  RuleId rule_of(const Json* schema, const std::string& path) {
    const auto found = rules_.find({schema, is_raw_});
    if (found != rules_.end()) return found->second;
    const RuleId rule = builder_.add_rule(path);
    rules_.emplace(std::pair(schema, is_raw_), rule);
    open_.push_back({schema, path, rule, is_raw_});
    return rule;
  }

  static Error refused(const std::string& path, std::string_view keyword, std::string_view why) {
    return error(ErrorKind::unsupported, printable(path), ": ", printable(keyword), ": ", why);
  }
  static Error wrong(const std::string& path, std::string_view keyword, const Json& value, std::string_view want) {
    return error(ErrorKind::invalid, printable(path), ": ", keyword, " is ", printable(write_json(value)), ": want ",
                 want);
  }

  Result<Expression> schema(const Json& schema, const std::string& path, int depth) {
    if (depth > kMaxGrammarDepth) return refused(path, "schema", cat("nested more than ", kMaxGrammarDepth, " deep"));
    if (++schemas_ > kMaxSchemas) return refused(path, "schema", cat("more than ", kMaxSchemas, " schemas"));
    TRY_STATUS(builder_.check_size());
    if (schema.is_bool()) return schema.as_bool() ? any_value() : builder_.nothing();
    if (!schema.is_object()) return error(ErrorKind::invalid, printable(path), ": found no schema: want an object");
    TRY_STATUS(check_keywords(schema, path));
    if (has_combination(schema)) return combination(schema, path, depth);
    if (schema.find("enum") != nullptr || schema.find("const") != nullptr) return listed(schema, path);
    return typed(schema, path, depth);
  }

  // Of an element or a member, which is never raw.
  Result<Expression> inner(const Json& schema, const std::string& path, int depth) {
    const bool was_raw = std::exchange(is_raw_, false);
    Result<Expression> made = this->schema(schema, path, depth);
    is_raw_ = was_raw;
    return made;
  }

  // Raw text covers what is no list and no object.
  Expression any_value() {
    return is_raw_ ? builder_.either({parts_.array(), parts_.object(), *style_.raw_text}) : parts_.value();
  }
  Expression quoted(Expression contents) { return is_raw_ ? contents : parts_.quoted(contents); }
  bool is_json() const { return !is_raw_ && parts_.notation() == ValueNotation::json; }
  Expression character() { return is_raw_ ? utf8_character(builder_, raw_characters()) : parts_.character(); }

  static bool has_combination(const Json& schema) {
    return schema.find("$ref") != nullptr || schema.find("allOf") != nullptr || schema.find("anyOf") != nullptr ||
           schema.find("oneOf") != nullptr;
  }

  Status check_keywords(const Json& schema, const std::string& path) const {
    for (const auto& [keyword, value] : schema.as_object()) {
      const bool is_true = value.is_bool() && value.as_bool();
      const bool harmless = (keyword == "uniqueItems" && value.is_bool() && !value.as_bool()) ||
                            (starts_with(keyword, "unevaluated") && is_true) ||
                            (starts_with(keyword, "depend") && value.is_object() && value.as_object().empty()) ||
                            (keyword == "propertyNames" && is_true);
      if (!harmless && is_refused(keyword))
        return refused(path, keyword, "cannot be honoured: want a schema without it");
    }
    return {};
  }

  // References and combinations, together with the keywords beside them.
  Result<Expression> combination(const Json& schema, const std::string& path, int depth) {
    const auto [keyword, value] = first_combination(schema);
    Json rest{Json::Object{}};
    bool alone = true;
    for (const auto& [name, one] : schema.as_object()) {
      if (name == keyword) continue;
      const bool counts = name == "$ref" || name == "allOf" || name == "anyOf" || name == "oneOf" || is_assertion(name);
      if (counts) rest.add(name, one);
      alone = alone && !counts;
    }
    const std::string own = path + "/" + std::string(keyword);
    if (keyword == "$ref") {
      if (!value->is_string()) return wrong(path, "$ref", *value, "a string");
      TRY(const Json* target, terms_.resolve(value->as_string(), printable(path)));
      if (alone) return builder_.call(rule_of(target, value->as_string()));
      return merged(*target, rest, own, depth);
    }
    if (!value->is_array() || value->as_array().empty()) return wrong(path, keyword, *value, "a list of schemas");
    const Json::Array& all = value->as_array();
    if (keyword == "allOf") {
      for (const Json& one : all) TRY_ASSIGN(rest, terms_.both(rest, one, own));
      return this->schema(keep(std::move(rest)), own, depth + 1);
    }
    if (keyword == "oneOf") TRY_STATUS(check_exclusive(all, path));
    std::vector<Expression> branches;
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string at = cat(own, "/", i);
      Result<Expression> branch = alone ? this->schema(all[i], at, depth + 1) : merged(all[i], rest, at, depth);
      if (!branch) return std::move(branch).error();
      branches.push_back(*branch);
    }
    return builder_.either(std::move(branches));
  }

  static std::pair<std::string_view, const Json*> first_combination(const Json& schema) {
    for (const std::string_view keyword : {"$ref", "allOf", "anyOf", "oneOf"})
      if (const Json* value = schema.find(keyword)) return {keyword, value};
    return {"", nullptr};
  }

  Result<Expression> merged(const Json& one, const Json& rest, const std::string& path, int depth) {
    TRY(Json both, terms_.both(one, rest, path));
    return schema(keep(std::move(both)), path, depth + 1);
  }

  // As a rule, so that it is not written out for each use.
  Expression shared(Expression part) {
    if (part == builder_.nothing()) return part;
    const RuleId rule = builder_.add_rule("a schema");
    builder_.define(rule, part);
    return builder_.call(rule);
  }

  // Schemas that are made here live as long as rules that name their parts.
  const Json& keep(Json schema) { return made_.emplace_back(std::move(schema)); }

  Status check_exclusive(const Json::Array& all, const std::string& path) const {
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (!terms_.exclude(all[j], all[i]))
          return refused(path, "oneOf",
                         cat("schemas ", j, " and ", i,
                             " may hold together: want anyOf, or schemas that "
                             "differ by type or by a required member"));
    return {};
  }

  // enum and const, less the values that the other keywords exclude.
  Result<Expression> listed(const Json& schema, const std::string& path) {
    std::vector<const Json*> values;
    if (const Json* all = schema.find("enum")) {
      if (!all->is_array()) return wrong(path, "enum", *all, "a list");
      for (const Json& one : all->as_array()) values.push_back(&one);
    }
    if (const Json* only = schema.find("const")) {
      const auto is_other = [&](const Json* one) { return write_json(*one) != write_json(*only); };
      std::erase_if(values, is_other);
      if (schema.find("enum") == nullptr) values = {only};
    }
    std::vector<std::string> words;
    std::vector<Expression> branches;
    for (const Json* value : values) {
      TRY(const bool valid, satisfies(*value, schema, path));
      if (!valid) continue;
      if (value->is_array() || value->is_object())
        branches.push_back(parts_.literal(*value));
      else
        words.push_back(is_raw_ && value->is_string() ? value->as_string() : parts_.written(*value));
    }
    branches.push_back(builder_.words(std::move(words)));
    return builder_.either(std::move(branches));
  }

  Result<bool> satisfies(const Json& value, const Json& schema, const std::string& path) const {
    TRY(const uint8_t types, SchemaTerms::types(schema, printable(path)));
    const auto refuse_beside = [&](std::initializer_list<std::string_view> keywords) -> Status {
      for (const std::string_view keyword : keywords)
        if (schema.find(keyword) != nullptr) return refused(path, keyword, "beside enum or const cannot be honoured");
      return {};
    };
    if (value.is_null()) return (types & kTypeNull) != 0;
    if (value.is_bool()) return (types & kTypeBoolean) != 0;
    if (value.is_number()) {
      const bool whole = value.is_integer() || std::floor(value.as_number()) == value.as_number();
      if ((types & (whole ? kTypeInteger : kTypeNumber)) == 0) return false;
      TRY_STATUS(refuse_beside({"multipleOf"}));
      TRY(const NumberRange range, bounds(schema, path));
      const std::optional<Bound> own =
          value.is_integer() ? make_bound(value.as_integer(), false) : make_bound(value.as_number(), false);
      return (!range.least && !range.most) || (own && is_within(value.as_number(), schema));
    }
    if (value.is_string()) {
      if ((types & kTypeString) == 0) return false;
      TRY_STATUS(refuse_beside({"pattern"}));
      TRY(const Range length, counts(schema, "minLength", "maxLength", path));
      const uint64_t own = characters_of(value.as_string());
      return own >= length.least && own <= length.most;
    }
    if (value.is_array()) {
      if ((types & kTypeArray) == 0) return false;
      TRY_STATUS(refuse_beside({"items", "prefixItems", "minItems", "maxItems", "additionalItems"}));
      return true;
    }
    if ((types & kTypeObject) == 0) return false;
    TRY_STATUS(refuse_beside(
        {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "patternProperties"}));
    return true;
  }

  static bool is_within(double value, const Json& schema) {
    const auto bound = [&](std::string_view name) { return schema.find(name); };
    const Json *low = bound("minimum"), *high = bound("maximum");
    const Json *above = bound("exclusiveMinimum"), *below = bound("exclusiveMaximum");
    const bool open_low = above != nullptr && above->is_bool() && above->as_bool();
    const bool open_high = below != nullptr && below->is_bool() && below->as_bool();
    if (low != nullptr && (value < low->as_number() || (open_low && value == low->as_number()))) return false;
    if (high != nullptr && (value > high->as_number() || (open_high && value == high->as_number()))) return false;
    if (above != nullptr && above->is_number() && value <= above->as_number()) return false;
    return below == nullptr || !below->is_number() || value < below->as_number();
  }

  Result<Expression> typed(const Json& schema, const std::string& path, int depth) {
    TRY(const uint8_t types, SchemaTerms::types(schema, printable(path)));
    std::vector<Expression> branches;
    const auto add = [&](Result<Expression> one) -> Status {
      if (!one) return std::move(one).error();
      branches.push_back(*one);
      return {};
    };
    if ((types & kTypeObject) != 0) TRY_STATUS(add(object(schema, path, depth)));
    if ((types & kTypeArray) != 0) TRY_STATUS(add(array(schema, path, depth)));
    if ((types & kTypeString) != 0) TRY_STATUS(add(string(schema, path)));
    if (is_raw_ && types == kTypeAny && !has_string_keyword(schema)) return builder_.either(std::move(branches));
    if ((types & kTypeInteger) != 0) TRY_STATUS(add(number(schema, path, (types & kTypeNumber) == 0)));
    if ((types & kTypeBoolean) != 0) branches.push_back(parts_.boolean());
    if ((types & kTypeNull) != 0) branches.push_back(parts_.null());
    return builder_.either(std::move(branches));
  }

  static bool has_string_keyword(const Json& schema) {
    return std::ranges::any_of(std::initializer_list<const char*>{"minLength", "maxLength", "pattern", "format"},
                               [&](const char* keyword) { return schema.find(keyword) != nullptr; });
  }

  // A number of characters, items or members.
  Result<Range> counts(const Json& schema, const char* least, const char* most, const std::string& path) const {
    Range range;
    for (const char* keyword : {least, most}) {
      const Json* value = schema.find(keyword);
      if (value == nullptr) continue;
      const bool whole =
          value->is_number() && value->as_number() >= 0 && std::floor(value->as_number()) == value->as_number();
      if (!whole) return wrong(path, keyword, *value, "a whole number from 0 on");
      if (keyword == least && value->as_number() > kMaxCount) return wrong(path, keyword, *value, "a smaller number");
      if (keyword == least) range.least = static_cast<uint32_t>(value->as_number());
      if (keyword == most && value->as_number() <= kMaxCount) range.most = static_cast<uint32_t>(value->as_number());
    }
    return range;
  }

  Result<Expression> object(const Json& schema, const std::string& path, int depth) {
    std::vector<std::string> required;
    if (const Json* names = schema.find("required"); names != nullptr && !names->is_bool()) {
      if (!names->is_array()) return wrong(path, "required", *names, "a list of names");
      for (const Json& name : names->as_array()) {
        if (!name.is_string()) return wrong(path, "required", *names, "a list of names");
        required.push_back(name.as_string());
      }
    }
    std::ranges::sort(required);
    required.erase(std::ranges::unique(required).begin(), required.end());
    const auto is_required = [&](const std::string& name) { return std::ranges::binary_search(required, name); };
    TRY(const Range count, counts(schema, "minProperties", "maxProperties", path));
    std::vector<ListItem> items;
    std::vector<std::string> names;
    if (const Json* properties = schema.find("properties")) {
      if (!properties->is_object()) return wrong(path, "properties", *properties, "an object");
      for (const auto& [name, one] : properties->as_object()) {
        TRY(const Expression value, inner(one, cat(path, "/properties/", name), depth + 1));
        items.push_back({.expression = value == builder_.nothing() ? value : parts_.member(name, value),
                         .required = is_required(name)});
        names.push_back(name);
      }
    }
    const Json* additional = schema.find("additionalProperties");
    Expression others = parts_.value();
    if (additional != nullptr) {
      TRY_ASSIGN(others, inner(*additional, path + "/additionalProperties", depth + 1));
      others = shared(others);
    } else if (style_.closed && !names.empty()) {
      others = builder_.nothing();
    }
    std::vector<std::string> known = names;
    std::ranges::sort(known);
    for (const std::string& name : required) {
      if (std::ranges::binary_search(known, name)) continue;
      items.push_back(
          {.expression = others == builder_.nothing() ? others : parts_.member(name, others), .required = true});
      names.push_back(name);
    }
    Expression other = builder_.nothing();
    if (const Json* patterns = schema.find("patternProperties"); patterns != nullptr)
      TRY_ASSIGN(other, pattern_members(*patterns, names, path, depth));
    else if (others != builder_.nothing())
      other = parts_.member(parts_.key_except(std::move(names)), others);
    TRY(const Expression members, members_of(std::move(items), other, count, path));
    return builder_.sequence({builder_.text("{"), parts_.blanks(), members, parts_.blanks(), builder_.text("}")});
  }

  // Members with names that a pattern has. Which schema holds for a name must be plain: no name may match a pattern and
  // be known, or match two patterns of different schemas.
  Result<Expression> pattern_members(const Json& patterns, const std::vector<std::string>& names,
                                     const std::string& path, int depth) {
    if (!patterns.is_object()) return wrong(path, "patternProperties", patterns, "an object");
    std::vector<Expression> branches;
    for (const auto& [pattern, one] : patterns.as_object()) {
      if (write_json(one) != write_json(patterns.as_object().front().second))
        return refused(path, "patternProperties", "several schemas cannot be honoured: want one for all patterns");
      for (const std::string& name : names) {
        TRY(const bool is_known, matches(name, pattern, path));
        if (is_known)
          return refused(path, "patternProperties",
                         cat("the pattern ", printable(pattern), " has the property ", printable(name),
                             ", too: want patterns without known names"));
      }
      const bool is_json = parts_.notation() == ValueNotation::json;
      Result<RegexPart> key = parse_regex(builder_, pattern, {.search = true, .json = is_json});
      if (!key) return error(key.error().kind, printable(path), ": patternProperties: ", key.error().text);
      branches.push_back(parts_.quoted(key->expression));
    }
    if (branches.empty()) return builder_.nothing();
    const Json& first = patterns.as_object().front().second;
    TRY(const Expression value, inner(first, path + "/patternProperties", depth + 1));
    return parts_.member(builder_.either(std::move(branches)), shared(value));
  }

  static Result<bool> matches(const std::string& name, const std::string& pattern, const std::string& path) {
    GrammarBuilder builder;
    const RuleId main = builder.add_rule("pattern");
    Result<RegexPart> part = parse_regex(builder, pattern, {.search = true});
    if (!part) return error(part.error().kind, printable(path), ": patternProperties: ", part.error().text);
    builder.define(main, part->expression);
    TRY(Grammar grammar, builder.finish(main));
    Automaton automaton(std::make_shared<const Grammar>(std::move(grammar)));
    const Automaton::State end =
        automaton.next(automaton.start(), {reinterpret_cast<const uint8_t*>(name.data()), name.size()});
    return automaton.can_end(end);
  }

  // The items in order, then any number of `other`; so many members in all.
  Result<Expression> members_of(std::vector<ListItem> items, Expression other, Range count, const std::string& path) {
    const auto is_required = [](const ListItem& item) { return item.required; };
    const auto fixed = static_cast<uint64_t>(std::ranges::count_if(items, is_required));
    const bool is_bounded = count.most != kUnbounded && (other != builder_.nothing() || count.most < items.size());
    if (count.least <= std::max<uint64_t>(1, fixed) && !is_bounded) {
      if (other != builder_.nothing()) items.push_back({.expression = other, .repeated = true});
      return builder_.list(std::move(items), parts_.comma(), count.least > 0 ? 1 : 0);
    }
    // Two other members may have one name, so only one of them surely counts.
    if (count.least > items.size() + (other == builder_.nothing() ? 0 : 1))
      return refused(path, "minProperties", "cannot be honoured: want at most one more than there are properties");
    return counted_members(items, other, count, path);
  }

  // A rule for each item and number of members before it.
  Result<Expression> counted_members(const std::vector<ListItem>& items, Expression other, Range count,
                                     const std::string& path) {
    const auto counts = static_cast<uint32_t>(std::min<uint64_t>(items.size(), std::max(count.least, 1u)));
    const uint32_t last =
        count.most == kUnbounded ? counts : static_cast<uint32_t>(std::min<uint64_t>(items.size(), count.most));
    if ((items.size() + 1) * (uint64_t{last} + 1) > kMaxCountedRules)
      return refused(
          path, "maxProperties",
          cat("with so many properties cannot be honoured: want fewer than ", kMaxCountedRules, " together"));
    std::vector<RuleId> behind,
        here;  // by the number of members; without a bound, from `last` on they are not told apart
    for (uint32_t n = 0; n <= last; ++n) {
      behind.push_back(builder_.add_rule("members"));
      builder_.define(behind[n], others_behind(other, n, count));
    }
    const Expression separated_begin = parts_.comma();
    for (size_t i = items.size(); i-- > 0;) {
      here.clear();
      for (uint32_t n = 0; n <= last; ++n) {
        std::vector<Expression> ways;
        const uint32_t next = count.most == kUnbounded ? std::min(n + 1, last) : n + 1;
        if (next <= last && (count.most == kUnbounded || n < count.most))
          ways.push_back(builder_.sequence(
              {n == 0 ? builder_.empty() : separated_begin, items[i].expression, builder_.call(behind[next])}));
        if (!items[i].required) ways.push_back(builder_.call(behind[n]));
        here.push_back(builder_.add_rule("members"));
        builder_.define(here[n], builder_.either(std::move(ways)));
      }
      behind.swap(here);
    }
    return builder_.call(behind[0]);
  }

  // What may follow `n` members when no item is left.
  Expression others_behind(Expression other, uint32_t n, Range count) {
    const uint32_t missing = count.least > n ? count.least - n : 0;
    const uint32_t room = count.most == kUnbounded ? kUnbounded : count.most - n;
    if (other == builder_.nothing() || room == 0) return missing == 0 ? builder_.empty() : builder_.nothing();
    if (missing > 1) return builder_.nothing();
    const Expression more = builder_.sequence({parts_.comma(), other});
    if (n > 0) return builder_.repeat(more, missing, room);
    const Expression some = builder_.sequence({other, builder_.repeat(more, 0, room == kUnbounded ? room : room - 1)});
    return missing > 0 ? some : builder_.optional(some);
  }

  Result<Expression> array(const Json& schema, const std::string& path, int depth) {
    TRY(const Range count, counts(schema, "minItems", "maxItems", path));
    const Json* prefix = schema.find("prefixItems");
    const Json* rest = schema.find("items");
    if (rest != nullptr && rest->is_array()) {  // before draft 2020-12
      prefix = rest;
      rest = schema.find("additionalItems");
    }
    std::vector<Expression> first;
    if (prefix != nullptr) {
      if (!prefix->is_array()) return wrong(path, "prefixItems", *prefix, "a list of schemas");
      for (size_t i = 0; i < prefix->as_array().size(); ++i) {
        TRY(const Expression one, inner(prefix->as_array()[i], cat(path, "/prefixItems/", i), depth + 1));
        first.push_back(one);
      }
    }
    Expression others = parts_.value();
    if (rest != nullptr) {
      TRY_ASSIGN(others, inner(*rest, path + "/items", depth + 1));
      others = shared(others);
    }
    return builder_.sequence(
        {builder_.text("["), parts_.blanks(), items(first, others, count), parts_.blanks(), builder_.text("]")});
  }

  // Items that begin with `first`; `others` behind them.
  Expression items(const std::vector<Expression>& first, Expression others, Range count) {
    if (count.least > count.most) return builder_.nothing();
    const auto fixed = static_cast<uint32_t>(std::min<size_t>(first.size(), count.most));
    const auto separated = [&](Expression item) { return builder_.sequence({parts_.comma(), item}); };
    const auto less = [](uint32_t from, uint32_t by) { return from == kUnbounded ? from : from > by ? from - by : 0; };
    if (fixed == 0) {
      if (count.most == 0) return builder_.empty();
      const Expression more =
          builder_.repeat(separated(others), less(std::max(count.least, 1u), 1), less(count.most, 1));
      const Expression some = builder_.sequence({others, more});
      return count.least == 0 ? builder_.optional(some) : some;
    }
    Expression tail = builder_.repeat(separated(others), less(count.least, fixed), less(count.most, fixed));
    for (uint32_t i = fixed; i-- > 1;) {
      tail = builder_.sequence({separated(first[i]), tail});
      if (count.least <= i) tail = builder_.optional(tail);
    }
    const Expression all = builder_.sequence({first[0], tail});
    return count.least == 0 ? builder_.optional(all) : all;
  }

  Result<Expression> string(const Json& schema, const std::string& path) {
    TRY(const Range length, counts(schema, "minLength", "maxLength", path));
    if (length.least > length.most) return builder_.nothing();
    const Json* pattern = schema.find("pattern");
    const Json* format = schema.find("format");
    const std::string_view known =
        format != nullptr && format->is_string() ? format_regex(format->as_string()) : std::string_view();
    if (pattern != nullptr && !pattern->is_string()) return wrong(path, "pattern", *pattern, "a string");
    if (pattern != nullptr && !known.empty())
      return refused(path, "format", "beside a pattern cannot be honoured: want one of them");
    if (pattern == nullptr && known.empty()) {
      if (length.least == 0 && length.most == kUnbounded) return is_raw_ ? *style_.raw_text : parts_.string();
      return quoted(builder_.repeat(character(), length.least, length.most));
    }
    const bool is_pattern = pattern != nullptr;
    Result<RegexPart> part = parse_regex(builder_, is_pattern ? std::string_view(pattern->as_string()) : known,
                                         {.search = is_pattern, .json = is_json()});
    if (!part)
      return error(part.error().kind, printable(path), ": ", is_pattern ? "pattern" : "format", ": ",
                   part.error().text);
    if (part->shortest >= length.least && (length.most == kUnbounded || part->longest <= length.most))
      return quoted(part->expression);
    if (!part->run)
      return refused(path, schema.find("minLength") != nullptr ? "minLength" : "maxLength",
                     cat("beside this ", is_pattern ? "pattern" : "format",
                         " cannot be honoured: want the length in the pattern"));
    const uint32_t least = std::max(part->run->least, length.least), most = std::min(part->run->most, length.most);
    if (least > most) return builder_.nothing();
    const CodePoints& characters = part->run->characters;
    const Expression one = is_json() ? json_character(builder_, characters) : utf8_character(builder_, characters);
    return quoted(builder_.repeat(one, least, most));
  }

  Result<NumberRange> bounds(const Json& schema, const std::string& path) const {
    NumberRange range;
    const auto take = [&](std::string_view keyword, std::string_view exclusive, bool lower) -> Status {
      std::optional<Bound>& into = lower ? range.least : range.most;
      const Json* open = schema.find(exclusive);
      const Json* value = schema.find(keyword);
      const bool is_flag = open != nullptr && open->is_bool();  // draft 4
      if (value != nullptr) {
        if (!value->is_number()) return wrong(path, keyword, *value, "a number");
        into = bound_of(*value, is_flag && open->as_bool());
        if (!into) return wrong(path, keyword, *value, "a smaller number");
      }
      if (open == nullptr || is_flag) return {};
      if (!open->is_number()) return wrong(path, exclusive, *open, "a number");
      const bool tighter = value == nullptr ||
                           (lower ? open->as_number() >= value->as_number() : open->as_number() <= value->as_number());
      if (tighter) into = bound_of(*open, true);
      if (!into) return wrong(path, exclusive, *open, "a smaller number");
      return {};
    };
    TRY_STATUS(take("minimum", "exclusiveMinimum", true));
    TRY_STATUS(take("maximum", "exclusiveMaximum", false));
    return range;
  }
  static std::optional<Bound> bound_of(const Json& value, bool exclusive) {
    if (value.is_integer()) return make_bound(value.as_integer(), exclusive);
    return make_bound(value.as_number(), exclusive);
  }

  Result<Expression> number(const Json& schema, const std::string& path, bool whole_only) {
    TRY(const NumberRange range, bounds(schema, path));
    if (const Json* step = schema.find("multipleOf")) {
      const bool is_whole = step->is_number() && step->as_number() >= 1 && step->as_number() <= 1e15 &&
                            std::floor(step->as_number()) == step->as_number();
      if (!is_whole)
        return refused(path, "multipleOf", "cannot be honoured: want a whole number from 1 on, or a schema without it");
      if (step->as_number() > 1) return multiples(static_cast<int64_t>(step->as_number()), range, schema, path);
      whole_only = true;
    }
    if (!range.least && !range.most) return whole_only ? parts_.integer() : parts_.number();
    return numbers_between(builder_, range, whole_only);
  }

  // Multiples of a number above 1: a list where few lie between bounds; else without bounds, or from 0 on.
  Result<Expression> multiples(int64_t step, const NumberRange& range, const Json& schema, const std::string& path) {
    const auto value_of = [](const Bound& bound) {
      return (bound.negative ? -1.0 : 1.0) * std::strtod((bound.whole + "." + bound.fraction + "0").c_str(), nullptr);
    };
    if (range.least && range.most) {
      const double low = value_of(*range.least), high = value_of(*range.most);
      if (low >= -1e15 && high <= 1e15 && (high - low) / static_cast<double>(step) <= kMostMultiples) {
        std::vector<std::string> words;
        for (auto at = static_cast<int64_t>(std::ceil(low / static_cast<double>(step))) * step;
             static_cast<double>(at) <= high; at += step)
          if (is_within(static_cast<double>(at), schema)) words.push_back(std::to_string(at));
        return builder_.words(std::move(words));
      }
    }
    const bool from_zero = range.least && range.least->is_zero();
    if (range.most || (range.least && !from_zero) || step > kMostRemainders)
      return refused(path, "multipleOf",
                     cat("with these bounds cannot be honoured: want both, and at most ", kMostMultiples,
                         " multiples between them"));
    const Expression positive = positive_multiples(step);
    const Expression all = from_zero ? positive : builder_.sequence({builder_.optional(builder_.text("-")), positive});
    return from_zero && range.least->exclusive ? all : builder_.either({builder_.text("0"), all});
  }

  // A rule for each remainder of the digits that were read.
  Expression positive_multiples(int64_t step) {
    std::vector<RuleId> rules;
    rules.reserve(static_cast<size_t>(step));
    for (int64_t rest = 0; rest < step; ++rest) rules.push_back(builder_.add_rule("multiple"));
    const auto digits = [&](int64_t rest, char first) {
      std::map<int64_t, ByteSet> to;
      for (char digit = first; digit <= '9'; ++digit) to[(rest * 10 + (digit - '0')) % step].add(digit);
      std::vector<Expression> ways;
      ways.reserve(to.size() + 1);
      for (const auto& [next, set] : to)
        ways.push_back(builder_.sequence({builder_.bytes(set), builder_.call(rules[static_cast<size_t>(next)])}));
      return ways;
    };
    for (int64_t rest = 0; rest < step; ++rest) {
      std::vector<Expression> ways = digits(rest, '0');
      if (rest == 0) ways.push_back(builder_.empty());
      builder_.define(rules[static_cast<size_t>(rest)], builder_.either(std::move(ways)));
    }
    return builder_.either(digits(0, '1'));
  }

  SchemaTerms terms_;
  GrammarBuilder& builder_;
  JsonParts& parts_;
  SchemaStyle style_;
  bool is_raw_ = false;  // the schema that is compiled describes a value whose strings are raw
  uint64_t schemas_ = 0;
  std::map<std::pair<const Json*, bool>, RuleId> rules_;
  std::deque<Open> open_;
  std::deque<Json> made_;
};

}  // namespace

Result<RuleId> add_schema(GrammarBuilder& builder, JsonParts& parts, const Json& root, const Json& schema,
                          const std::string& path, const SchemaStyle& style) {
  return SchemaCompiler(builder, parts, root, style).compile(schema, path);
}

Result<Grammar> grammar_of_schema(const Json& schema) {
  GrammarBuilder builder;
  JsonParts parts(builder);
  TRY(const RuleId main, add_schema(builder, parts, schema, schema, "#"));
  return builder.finish(main);
}

Result<Grammar> grammar_of_json_object() {
  GrammarBuilder builder;
  JsonParts parts(builder);
  const RuleId main = builder.add_rule("main");
  builder.define(main, parts.object());
  return builder.finish(main);
}

}  // namespace sluice

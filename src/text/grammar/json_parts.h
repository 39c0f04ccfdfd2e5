// The parts of JSON as parts of a grammar, and those of Gemma 4's notation of calls (dialects/gemma4_notation.h), which
// differs in strings, keys and blanks.
//
// Blanks are few, because some models would write blanks for ever: after [ { , and before ] } nothing, a space, or a
// line end with up to 32 blanks of the next line; after : nothing or a space.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/code_points.h"
#include "text/grammar/grammar_builder.h"

namespace sluice {

enum class ValueNotation : uint8_t { json, gemma4 };

class JsonParts {
 public:
  // `builder` outlives this and gets rules for values, strings and blanks.
  explicit JsonParts(GrammarBuilder& builder, ValueNotation notation = ValueNotation::json);

  ValueNotation notation() const { return notation_; }

  Expression value() { return builder_->call(value_); }
  Expression object() { return builder_->call(object_); }
  Expression array() { return builder_->call(array_); }
  Expression string() { return builder_->call(string_); }
  Expression number();
  Expression integer();
  Expression boolean();
  Expression null() { return builder_->text("null"); }
  Expression blanks() { return builder_->call(blanks_); }
  Expression comma() { return comma_; }
  Expression character() { return builder_->call(character_); }  // of a string
  Expression quoted(Expression contents);

  // The value itself, as it is usually written.
  Expression literal(const Json& value);
  // The same of a value that is no list and no object.
  std::string written(const Json& value) const;
  // "name": value
  Expression member(std::string_view name, Expression value);
  Expression member(Expression key, Expression value);
  // A key that is none of the names. In Gemma's notation it is of ASCII letters, digits, '_', '-' and '.'.
  Expression key_except(std::vector<std::string> names);

 private:
  void define_json();
  void define_gemma4();
  void define_values();
  std::string key(std::string_view name) const;

  GrammarBuilder* builder_;
  ValueNotation notation_;
  RuleId blanks_, character_, string_, string_rest_, value_, object_, array_;
  Expression comma_, colon_;
};

// Characters of text that is written as it is: tabs and line ends may stand in it.
CodePoints raw_characters();
// A JSON string, with its quotes.
std::string quoted_json(std::string_view text);

}  // namespace sluice

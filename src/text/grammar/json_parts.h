// The parts of JSON as parts of a grammar.
//
// Blanks are few, because some models would write blanks for ever: after [ { , and before ] } nothing, a space, or a
// line end with up to 32 blanks of the next line; after : nothing or a space.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/grammar_builder.h"

namespace sluice {

class JsonParts {
 public:
  // `builder` outlives this and gets rules for values, strings and blanks.
  explicit JsonParts(GrammarBuilder& builder);

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
  // "name": value
  Expression member(std::string_view name, Expression value);
  Expression member(Expression name, Expression value);
  // A string that is none of the names.
  Expression string_except(std::vector<std::string> names);

 private:
  GrammarBuilder* builder_;
  RuleId blanks_, character_, string_, string_rest_, value_, object_, array_;
  Expression comma_, colon_;
};

// A JSON string, with its quotes.
std::string quoted_json(std::string_view text);

}  // namespace sluice

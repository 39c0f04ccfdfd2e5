// JSON Schema as a grammar.
//
// Supported: type, properties (in the order of the schema; other members behind them), required, additionalProperties,
// enum, const, items, prefixItems, additionalItems, minItems, maxItems, minLength, maxLength, pattern, format
// (json_formats.h), minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf a whole number, minProperties,
// maxProperties, patternProperties of one schema, anyOf, oneOf of schemas that exclude each other, allOf of schemas
// that one schema can say, $ref within the document, true and false. Everything else that would exclude instances is
// refused by path and keyword, so that no invalid instance is allowed. Some valid instances are not allowed: other
// blanks (json_parts.h), members in another order, unknown names beside patternProperties, names and integers written
// in unusual ways (\u0061, 1.0), and exponents of bounded numbers. Source: https://json-schema.org/draft/2020-12; also
// items as a list and definitions of older drafts.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_builder.h"
#include "text/grammar/json_parts.h"

namespace sluice {

// How values are written where that is not plain JSON.
struct SchemaStyle {
  // Objects with properties have no other members unless the schema says so by additionalProperties.
  bool closed = false;
  // The value itself is no JSON if it is a string, but raw text: any such text, as an expression.
  std::optional<Expression> raw_text = {};
};

// A rule for `schema`, which lies at `path` in the document `root`.
Result<RuleId> add_schema(GrammarBuilder& builder, JsonParts& parts, const Json& root, const Json& schema,
                          const std::string& path, const SchemaStyle& style = {});
Result<Grammar> grammar_of_schema(const Json& schema);
// Any JSON object.
Result<Grammar> grammar_of_json_object();

}  // namespace sluice

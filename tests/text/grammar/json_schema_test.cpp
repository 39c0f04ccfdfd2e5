#include "grammars.h"

namespace sluice::test {
namespace {

using Texts = std::initializer_list<std::string_view>;
void expect_schema(std::string_view schema, Texts valid, Texts invalid) {
  SCOPED_TRACE(schema);
  expect_texts(schema_source(schema), valid, invalid);
}
std::string refused_schema(std::string_view schema) { return refusal(schema_source(schema)); }

TEST(JsonSchemaGrammar, TakesAnyJsonForTheEmptySchemaAndForTrue) {
  for (const std::string_view any : {"{}", "true", R"({"title": "x", "x-vendor": 1})"})
    expect_schema(any,
                  {"{}", "[]", "[1, \"a\", {\"b\": null}]", "-0.5e+7", "\"\\u00e9\\n\"", "true", "{\n  \"a\": 1\n}"},
                  {"", "{", "[1,]", "01", "\"\t\"", "\"\\x\"", "\"\\ud800\"", "nul", "1.", "{\"a\" : 1}"});
  expect_texts({.kind = Source::Kind::json_object}, {"{}", R"({"a": [1]})"}, {"[]", "1", ""});
  EXPECT_EQ(refused_schema("false"), "no text satisfies it: want one that can");
}

TEST(JsonSchemaGrammar, KeepsTheOrderOfProperties) {
  expect_schema(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
                  "required": ["b"], "additionalProperties": false})",
                {R"({"b": ""})", R"({"a": 1, "b": "x"})", R"({"a":1,"b":"x","c":[{}]})", R"({ "b": "x", "c": 1 })"},
                {R"({})", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"a": 1.5, "b": ""})", R"({"b": "", "d": 1})"});
}

TEST(JsonSchemaGrammar, TakesOtherMembersBehindThem) {
  expect_schema(R"({"type": "object", "properties": {"name": {"type": "string"}}})",
                {R"({"name": "x"})", R"({"name": "x", "names": 1, "nam": 2})", R"({"n\n": 1})", R"({"": 1})",
                 "{\"n\xc3\xa9\": 1}", R"({"q\u0061": 1})"},
                {R"({"name": 1})", R"({"nam": 1, "name": 2})", R"({"n\u0061me": 1})", R"({"\u006eame": 1})"});
  expect_schema(
      "{\"type\": \"object\", \"properties\": {\"\xc3\xa9\\\"\": {\"type\": \"null\"}}}",
      {"{\"\xc3\xa9\\\"\": null}", "{\"\xc3\xa8\": 1}", "{\"\xc3\xa9\": 1}", "{\"e\": 1}", "{\"\xe2\x82\xac\": 1}"},
      {"{\"\xc3\xa9\\\"\": 1}"});
  expect_schema(R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1})",
                {R"({"x": 1, "y": 2})"}, {R"({"x": "1"})", "{}"});
  expect_schema(R"({"type": "object", "required": ["x"]})", {R"({"x": 1, "y": 2})", R"({"x": []})"},
                {"{}", R"({"y": 1})"});
}

TEST(JsonSchemaGrammar, CountsMembers) {
  const std::string_view three = R"("properties": {"a": {}, "b": {}, "c": {}})";
  const auto counted = [&](std::string_view more, Texts valid, Texts invalid) {
    expect_schema(cat("{\"type\": \"object\", ", three, ", ", more, "}"), valid, invalid);
  };
  counted(R"("minProperties": 2, "additionalProperties": false)",
          {R"({"a": 1, "b": 1})", R"({"b": 1, "c": 1})", R"({"a": 1, "b": 1, "c": 1})"}, {"{}", R"({"a": 1})"});
  counted(R"("maxProperties": 2, "additionalProperties": false)", {"{}", R"({"a": 1})", R"({"a": 1, "c": 1})"},
          {R"({"a": 1, "b": 1, "c": 1})", R"({"a": 1,})", R"({,"a": 1})"});
  counted(R"("maxProperties": 2, "required": ["b"])", {R"({"b": 1})", R"({"a": 1, "b": 1})", R"({"b": 1, "x": 1})"},
          {"{}", R"({"a": 1, "c": 1})", R"({"b": 1, "x": 1, "y": 1})", R"({"a": 1, "b": 1, "x": 1})"});
  counted(R"("minProperties": 4)",
          {R"({"a": 1, "b": 1, "c": 1, "x": 1})", R"({"a": 1, "b": 1, "c": 1, "x": 1, "y": 1})"},
          {R"({"a": 1, "b": 1, "c": 1})", R"({"a": 1, "x": 1, "y": 1, "z": 1})"});
  expect_schema(R"({"type": "object", "maxProperties": 1})", {"{}", R"({"x": 1})"}, {R"({"x": 1, "y": 1})"});
  expect_schema(R"({"type": "object", "maxProperties": 0})", {"{}"}, {R"({"x": 1})"});
  EXPECT_EQ(refused_schema(R"({"type": "object", "minProperties": 2})"),
            "#: minProperties: cannot be honoured: want at most one more than there are properties");
  EXPECT_EQ(refused_schema(R"({"type": "object", "minProperties": 2, "maxProperties": 1, "properties": {"a": {}}})"),
            "no text satisfies it: want one that can");
}

TEST(JsonSchemaGrammar, TakesMembersWhoseNamesMatchAPattern) {
  expect_schema(R"({"type": "object", "properties": {"name": {"type": "null"}}, "additionalProperties": false,
                    "patternProperties": {"^x-": {"type": "integer"}, "^[0-9]+$": {"type": "integer"}}})",
                {"{}", R"({"name": null})", R"({"name": null, "x-a": 1, "12": 2})", R"({"x-\n": 1})"},
                {R"({"x-a": "1"})", R"({"y": 1})", R"({"x": 1})", R"({"1a": 1})", R"({"name": 1})"});
  expect_schema(R"({"patternProperties": {".*": {"type": "string"}}, "type": "object", "maxProperties": 2})",
                {R"({"": "", "a": "b"})"}, {R"({"a": 1})", R"({"a": "", "b": "", "c": ""})"});
  EXPECT_EQ(refused_schema(R"({"type": "object", "properties": {"x-1": {}}, "patternProperties": {"^x-": {}}})"),
            "#: patternProperties: the pattern ^x- has the property x-1, too: want patterns without known names");
  EXPECT_EQ(refused_schema(R"({"type": "object", "patternProperties": {"^x": {}, "y$": {"type": "null"}}})"),
            "#: patternProperties: several schemas cannot be honoured: want one for all patterns");
  EXPECT_EQ(
      refused_schema(R"({"type": "object", "allOf": [{"patternProperties": {"^x": {"type": "null"}}},
                              {"additionalProperties": false}]})"),
      "#/allOf: patternProperties beside another schema of the same object: cannot be honoured: want one of them");
  EXPECT_NE(refused_schema(R"({"enum": [{"y": 1}], "patternProperties": {"^x": {}}})"), "compiled");
}

TEST(JsonSchemaGrammar, TakesMultiples) {
  const auto grammar = compiled(schema_source(R"({"type": "integer", "multipleOf": 7})"));
  const auto from_zero = compiled(schema_source(R"({"type": "number", "multipleOf": 12, "minimum": 0})"));
  const auto within =
      compiled(schema_source(R"({"type": "integer", "multipleOf": 6, "minimum": -13, "exclusiveMaximum": 24})"));
  for (int64_t i = -200; i <= 200; ++i) {
    EXPECT_EQ(accepts(grammar, cat(i)), i % 7 == 0) << i;
    EXPECT_EQ(accepts(from_zero, cat(i)), i >= 0 && i % 12 == 0) << i;
    EXPECT_EQ(accepts(within, cat(i)), i % 6 == 0 && i >= -13 && i < 24) << i;
  }
  for (const std::string_view text : {"07", "-0", "7.0", "14.5", "", "-"}) EXPECT_FALSE(accepts(grammar, text)) << text;
  EXPECT_TRUE(accepts(grammar, "7000000000000000000000"));
  EXPECT_FALSE(accepts(from_zero, "-12"));
  const auto positive = compiled(schema_source(R"({"type": "integer", "multipleOf": 5, "exclusiveMinimum": 0})"));
  EXPECT_TRUE(accepts(positive, "5"));
  EXPECT_FALSE(accepts(positive, "0"));
}

TEST(JsonSchemaGrammar, KnowsTypesAndTheirKeywords) {
  expect_schema(R"({"type": ["string", "null"]})", {"null", "\"x\""}, {"1", "true"});
  expect_schema(R"({"minLength": 2})", {"\"ab\"", "1", "[]", "null"}, {"\"a\""});
  expect_schema(R"({"type": "string", "minLength": 1, "maxLength": 3})",
                {"\"a\"", "\"abc\"", "\"\xe2\x82\xac\xc3\xa9x\"", R"("\n\u00e9\ud83d\ude00")"},
                {"\"\"", "\"abcd\"", R"("\n\n\n\n")"});
  expect_schema(R"({"type": "integer"})", {"0", "-12", "100000000000000000000"}, {"01", "1.5", "\"1\""});
  expect_schema(R"({"type": "boolean"})", {"true", "false"}, {"null"});
  const auto wide = compiled(schema_source(R"({"type": "string", "maxLength": 65536})"));
  EXPECT_TRUE(accepts(wide, "\"" + std::string(65536, 'x') + "\""));
  EXPECT_FALSE(accepts(wide, "\"" + std::string(65537, 'x') + "\""));
}

TEST(JsonSchemaGrammar, ComparesNumbersDigitByDigit) {
  const auto range = [](std::string_view type, int64_t low, int64_t high) {
    return compiled({.kind = Source::Kind::json_schema,
                     .schema = Json::Object{{"type", type}, {"minimum", low}, {"maximum", high}}});
  };
  for (const auto& [low, high] : {std::pair{0, 9}, {-5, 12}, {7, 7}, {98, 1002}, {-120, -15}, {-1, 0}, {10, 99}}) {
    const auto whole = range("integer", low, high), real = range("number", low, high);
    for (int value = -1100; value <= 1100; ++value) {
      EXPECT_EQ(accepts(whole, cat(value)), value >= low && value <= high) << value << " in " << low << ".." << high;
      EXPECT_EQ(accepts(real, cat(value, ".0")), value >= low && value <= high) << value;
      const double half = value + (value < 0 ? -0.5 : 0.5);
      EXPECT_EQ(accepts(real, cat(value, ".5")), (value != 0 || low <= 0) && half >= low && half <= high)
          << value << ".5 in " << low << ".." << high;
    }
  }
  for (const auto& [low, high] : {std::pair{0.25, 0.5}, {1.05, 1.3}, {-2.75, 3.125}, {0.0, 1.0}, {99.5, 100.25}}) {
    for (const bool open : {false, true}) {
      const auto grammar = compiled({.kind = Source::Kind::json_schema,
                                     .schema = Json::Object{{"type", "number"},
                                                            {open ? "exclusiveMinimum" : "minimum", low},
                                                            {open ? "exclusiveMaximum" : "maximum", high}}});
      for (int thousandths = -3200; thousandths <= 101'000; thousandths += thousandths > 5000 ? 50 : 1) {
        const double value = thousandths / 1000.0;
        const std::string text = cat(thousandths < 0 ? "-" : "", std::abs(thousandths) / 1000, ".",
                                     std::to_string(1000 + std::abs(thousandths) % 1000).substr(1));
        EXPECT_EQ(accepts(grammar, text), open ? value > low && value < high : value >= low && value <= high)
            << text << " in " << low << ".." << high;
      }
    }
  }
  expect_schema(R"({"type": "integer", "exclusiveMinimum": 0})", {"1", "1000000"}, {"0", "-1", "-0"});
  expect_schema(R"({"type": "integer", "minimum": 1.5, "maximum": 3, "exclusiveMaximum": true})", {"2"}, {"1", "3"});
}

TEST(JsonSchemaGrammar, ListsValues) {
  expect_schema(R"({"enum": ["red", "re", 1, null, [1, {"a": "b"}], "\"q\""]})",
                {"\"red\"", "\"re\"", "1", "null", "[1,{\"a\":\"b\"}]", "[1, {\"a\": \"b\"}]", R"("\"q\"")"},
                {"\"r\"", "2", "\"redx\"", "[1]"});
  expect_schema(R"({"type": "string", "enum": ["a", "abc", 1], "maxLength": 2})", {"\"a\""}, {"\"abc\"", "1"});
  expect_schema(R"({"const": {"x": true}})", {"{\"x\": true}"}, {"{}", "true"});
  expect_schema(R"({"enum": [5, 15, 2.5], "type": "integer", "minimum": 10})", {"15"}, {"5", "2.5"});
}

TEST(JsonSchemaGrammar, CountsItems) {
  expect_schema(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
                {"[1]", "[1, 2,3]", "[\n  1,\n  2\n]"}, {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]"});
  expect_schema(R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})",
                {"[]", "[1]", "[1, \"a\"]"}, {"[\"a\"]", "[1, \"a\", 2]"});
  expect_schema(
      R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "null"}, "minItems": 2})",
      {"[1, null]", "[1, null, null]"}, {"[1]", "[null, null]", "[1, 2]"});
  expect_schema(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
}

TEST(JsonSchemaGrammar, SearchesPatterns) {
  expect_schema(R"({"type": "string", "pattern": "^[a-z]+$"})", {"\"abc\""}, {"\"\"", "\"aB\""});
  expect_schema(R"({"type": "string", "pattern": "b"})", {"\"b\"", "\"abc\"", R"("\nb\"")"}, {"\"a\"", "\"\""});
  expect_schema(R"({"type": "string", "pattern": "^a|b$"})", {"\"ax\"", "\"xb\""}, {"\"xa\"", "\"bx\""});
  expect_schema("{\"type\": \"string\", \"pattern\": \"^.\\\\\\\\\\\"$\"}", {"\"x\\\\\\\"\""}, {"\"x\""});
  expect_schema(R"({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3})", {"\"ab\"", "\"abc\""},
                {"\"a\"", "\"abcd\""});
  expect_schema(R"({"type": "string", "pattern": "^a{2,3}b$", "maxLength": 10})", {"\"aab\""}, {"\"ab\""});
}

TEST(JsonSchemaGrammar, KeepsToFormats) {
  expect_schema(R"({"type": "string", "format": "date"})", {"\"2024-02-29\"", "\"2023-12-31\""},
                {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"23-01-01\""});
  expect_schema(R"({"type": "string", "format": "date-time"})",
                {"\"2024-01-31T23:59:59Z\"", "\"2024-01-31T00:00:00.123+05:30\""},
                {"\"2024-01-31\"", "\"2024-01-31T24:00:00Z\""});
  expect_schema(R"({"type": "string", "format": "uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""},
                {"\"123e4567\""});
  expect_schema(R"({"type": "string", "format": "email"})", {"\"a.b@example.org\""}, {"\"a\"", "\"@b\"", "\"a@\""});
  expect_schema(R"({"type": "string", "format": "ipv4"})", {"\"192.168.0.1\"", "\"255.255.255.255\""},
                {"\"256.1.1.1\"", "\"1.2.3\"", "\"01.2.3.4\""});
  expect_schema(R"({"type": "string", "format": "ipv6"})",
                {"\"::1\"", "\"2001:db8::ff00:42:8329\"", "\"::ffff:1.2.3.4\""}, {"\"1::2::3\"", "\":1\""});
  expect_schema(R"({"type": "string", "format": "uri"})", {"\"https://a.example/b?c=d#e\"", "\"mailto:x@y.z\""},
                {"\"/a\"", "\"http://a b\""});
  expect_schema(R"({"type": "string", "format": "hostname"})", {"\"www.example.org\""}, {"\"-a\"", "\"a..b\""});
  expect_schema(R"({"type": "string", "format": "duration"})", {"\"P1Y2M3DT4H\"", "\"PT5S\"", "\"P3W\""},
                {"\"P\"", "\"PT\"", "\"P1YT\""});
  expect_schema(R"({"type": "string", "format": "uri-reference"})",
                {"\"\"", "\"a/b?c#d\"", "\"../x\"", "\"//h/p\"", "\"https://a.example/b\""},
                {"\"://\"", "\"a b\"", "\"%\"", "\"1:2/x\"", "\"\u00e4\""});
  expect_schema(R"({"type": "string", "format": "iri"})", {"\"https://a.example/\u00e4?\u4e2d\"", "\"x:y\""},
                {"\"not-an-iri\"", "\"a b:c\""});
  expect_schema(R"({"type": "string", "format": "iri-reference"})", {"\"\u00e4/b\"", "\"\""}, {"\"<\""});
  expect_schema(R"({"type": "string", "format": "uri-template"})",
                {"\"\"", "\"http://a.example/{x}/{?y,z*}\"", "\"{+path:6}/here\"", "\"a%20b\""},
                {"\"http://example.com/resource/{\"", "\"{}\"", "\"{a\"", "\"a}\"", "\"a b\"", "\"{x:0}\""});
  expect_schema(R"({"type": "string", "format": "json-pointer"})", {"\"\"", "\"/a/0/~1~0\""}, {"\"a\"", "\"/~2\""});
  expect_schema(R"({"type": "string", "format": "relative-json-pointer"})", {"\"0#\"", "\"1/a\"", "\"2\""},
                {"\"\"", "\"/a\"", "\"01\""});
  expect_schema(
      R"({"type": "string", "format": "regex"})",
      {"\"\"", "\"^[a-z0-9_-]+$\"", R"("^\\d{4}-(?:0[1-9]|1[0-2])$")", "\"(a(b|c)*)?x{1,3}?\"", R"("\\.\\/[^\"]")"},
      {"\"*\"", R"("\\")", "\"(\"", "\"a)\"", "\"[z-a]\"", "\"a**\"", "\"x{2,1}\"", "\"[\"", "\"(?<\"", "\"^*\""});
  expect_schema(R"({"type": "string", "format": "int32"})", {"\"anything\""}, {});
}

TEST(JsonSchemaGrammar, JoinsAlternatives) {
  expect_schema(R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})", {"1", "\"a\""},
                {"\"ab\"", "null"});
  expect_schema(R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null"});
  expect_schema(R"({"oneOf": [
                  {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"], "additionalProperties": false},
                  {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "integer"}}, "required": ["kind"], "additionalProperties": false}]})",
                {R"({"kind": "a", "x": 1})", R"({"kind": "b"})"}, {R"({"kind": "a", "y": 1})", R"({"kind": "c"})"});
  expect_schema(
      R"({"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
      {R"({"a": 1})", R"({"b": 1})"}, {"{}", R"({"a": "x"})"});
}

TEST(JsonSchemaGrammar, MergesWhatHoldsTogether) {
  expect_schema(R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                            {"properties": {"a": {"minimum": 5}, "b": {"type": "null"}}, "required": ["b"]}]})",
                {R"({"a": 5, "b": null})"}, {R"({"a": 4, "b": null})", R"({"a": 5})"});
  expect_schema(R"({"$defs": {"n": {"type": "integer", "minimum": 0}}, "$ref": "#/$defs/n", "maximum": 3})", {"0", "3"},
                {"-1", "4"});
  expect_schema(
      R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}], "type": "object"})",
      {"{}", R"({"a": 1})"}, {R"({"b": 1})"});
  EXPECT_EQ(refused_schema(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})"),
            "#/allOf: pattern is given twice by schemas that hold together: want it once");
}

TEST(JsonSchemaGrammar, FollowsReferences) {
  expect_schema(R"({"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}},
                  "required": ["value"], "additionalProperties": false})",
                {R"({"value": 1, "next": {"value": 2, "next": {"value": 3}}})"}, {R"({"value": 1, "next": {}})"});
  expect_schema(R"({"definitions": {"a/b": {"type": "null"}}, "$ref": "#/definitions/a~1b"})", {"null"}, {"1"});
  // What can never end is left out.
  expect_schema(R"({"type": "object", "properties": {"x": {"$ref": "#/$defs/endless"}}, "additionalProperties": false,
                  "$defs": {"endless": {"type": "object", "properties": {"e": {"$ref": "#/$defs/endless"}}, "required": ["e"]}}})",
                {"{}"}, {R"({"x": {}})"});
  EXPECT_EQ(refused_schema(R"({"$ref": "#"})"), "no text satisfies it: want one that can");
  EXPECT_EQ(
      refused_schema(R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})"),
      "#/$defs/a begins with itself: want it to read something first");
  EXPECT_EQ(refused_schema(R"({"properties": {"a": {"$ref": "other.json"}}})"),
            "#/properties/a: $ref other.json: want one within the schema, such as #/$defs/NAME");
  EXPECT_EQ(refused_schema(R"({"$ref": "#/nowhere"})"), "#: $ref #/nowhere: want a schema that is there");
}

TEST(JsonSchemaGrammar, RefusesByPathAndKeyword) {
  EXPECT_EQ(refused_schema(R"({"properties": {"a": {"not": {}}}})"),
            "#/properties/a: not: cannot be honoured: want a schema without it");
  for (const std::string_view keyword :
       {"if", "propertyNames", "contains", "dependentRequired", "unevaluatedProperties"})
    EXPECT_EQ(refusal({.kind = Source::Kind::json_schema,
                       .schema = Json::Object{{std::string(keyword), Json::Object{{"a", 1}}}}}),
              cat("#: ", keyword, ": cannot be honoured: want a schema without it"));
  EXPECT_EQ(refused_schema(R"({"uniqueItems": true})"), "#: uniqueItems: cannot be honoured: want a schema without it");
  EXPECT_EQ(refused_schema(R"({"uniqueItems": false, "type": "null"})"), "compiled");
  EXPECT_EQ(
      refused_schema(R"x({"items": {"pattern": "(?!a)"}})x"),
      "#/items: pattern: regular expression (?!a): look-ahead (?! at byte 0 cannot be honoured: want an expression "
      "without it");
  EXPECT_EQ(refused_schema(R"({"type": "text"})"), "#: type \"text\": want one of JSON's types");
  EXPECT_EQ(refused_schema(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"),
            "#: oneOf: schemas 0 and 1 may hold together: want anyOf, or schemas that differ by type or by a required "
            "member");
  EXPECT_EQ(refused_schema(R"({"multipleOf": 0.1})"),
            "#: multipleOf: cannot be honoured: want a whole number from 1 on, or a schema without it");
  EXPECT_EQ(refused_schema(R"({"multipleOf": 3, "minimum": 4})"),
            "#: multipleOf: with these bounds cannot be honoured: want both, and at most 10000 multiples between them");
  EXPECT_EQ(refused_schema(R"({"minLength": "x"})"), "#: minLength is \"x\": want a whole number from 0 on");
  EXPECT_EQ(refused_schema("[]"), "#: found no schema: want an object");
  std::string deep = "{}";
  for (int i = 0; i < 60; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_EQ(refused_schema(deep), "compiled");
  EXPECT_NE(refused_schema(R"({"items":{"items":{"items":{"items":{"items":)" + deep + "}}}}}")
                .find("nested more than 64 deep"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::test

#include "text/grammar/call_grammar.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/json_parts.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/markers.h"
#include "text/grammar/schema_terms.h"

namespace sluice {
namespace {

constexpr std::string_view kParameterEnd = "</parameter>";
constexpr uint32_t kOuterBegin = kFirstInnerMarker + 1, kOuterEnd = kFirstInnerMarker + 2;  // of DeepSeek

bool is_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 256 && std::ranges::all_of(name, is_letter);
}

// Any raw text without `end`: a rule for each number of its characters that have just been read. `end` is ASCII.
Expression text_without(GrammarBuilder& builder, std::string_view end) {
  std::vector<RuleId> rules;
  rules.reserve(end.size());
  for (size_t read = 0; read < end.size(); ++read) rules.push_back(builder.add_rule("text"));
  for (size_t read = 0; read < end.size(); ++read) {
    std::vector<Expression> ways = {builder.empty()};
    CodePoints others = raw_characters();
    std::string seen(end.substr(0, read));
    for (const char c : std::string(end)) {
      const CodePoints one = CodePoints::of(static_cast<uint8_t>(c));
      if (!others.has(static_cast<uint8_t>(c))) continue;  // it stands in `end` before
      others = others.without(one);
      // The longest beginning of `end` that the text then ends with.
      const std::string now = seen + c;
      size_t begun = std::min(now.size(), end.size());
      while (begun > 0 && now.substr(now.size() - begun) != end.substr(0, begun)) --begun;
      if (begun == end.size()) continue;
      ways.push_back(builder.sequence({utf8_character(builder, one), builder.call(rules[begun])}));
    }
    ways.push_back(builder.sequence({utf8_character(builder, others), builder.call(rules[0])}));
    builder.define(rules[read], builder.either(std::move(ways)));
  }
  return builder.call(rules[0]);
}

class CallCompiler {
 public:
  explicit CallCompiler(const CallForm& calls)
      : calls_(calls),
        json_(builder_),
        gemma4_(calls.notation == CallNotation::gemma4
                    ? std::optional<JsonParts>(std::in_place, builder_, ValueNotation::gemma4)
                    : std::nullopt) {
    if (calls.notation == CallNotation::xml_parameters) raw_text_ = text_without(builder_, kParameterEnd);
  }

  Result<Grammar> compile() {
    const RuleId main = builder_.add_rule("calls");
    std::vector<Expression> each;
    for (const Json& tool : calls_.tools.as_array()) {
      TRY(const Expression one, call_of(*tool.find("function")));
      each.push_back(one);
    }
    Expression answer =
        builder_.sequence({marker(kOpenMarker), builder_.either(std::move(each)), marker(kCloseMarker)});
    if (!calls_.only_call) answer = all_calls(answer);
    if (calls_.form) {
      TRY(const RuleId form, add_schema(builder_, json_, *calls_.form, *calls_.form, "#"));
      answer = builder_.either({answer, builder_.call(form)});
    }
    builder_.define(main, answer);
    return builder_.finish(main);
  }

 private:
  Expression marker(uint32_t number) { return builder_.text(marker_text(number)); }

  Expression all_calls(Expression one) {
    const bool is_deepseek =
        calls_.notation == CallNotation::deepseek || calls_.notation == CallNotation::deepseek_fenced;
    const bool has_lines = calls_.notation != CallNotation::gemma4 && calls_.notation != CallNotation::deepseek;
    const Expression between = has_lines ? builder_.text("\n") : builder_.empty();
    const Expression more =
        builder_.repeat(builder_.sequence({between, one}), 0, calls_.most == kUnbounded ? kUnbounded : calls_.most - 1);
    const Expression all = builder_.sequence({one, more});
    return is_deepseek ? builder_.sequence({marker(kOuterBegin), all, marker(kOuterEnd)}) : all;
  }

  // What stands between the markers of a call of the tool.
  Result<Expression> call_of(const Json& function) {
    const std::string& name = function.find("name")->as_string();
    if (!is_name(name))
      return error(ErrorKind::unsupported, "tool ", printable(name),
                   ": calls cannot be enforced: want a name of letters, digits, '_', '-' and '.'");
    const Json* strict = function.find("strict");
    const bool is_strict = strict != nullptr && strict->is_bool() && strict->as_bool();
    const Json schema = arguments_schema(function.find("parameters"));
    Result<Expression> made = written_call(name, schema);
    if (made) return made;
    if (is_strict || made.error().kind != ErrorKind::unsupported)
      return error(made.error().kind, "tool ", name, ": ", made.error().text);
    const Json any = Json::Object{{"type", "object"}};
    return calls_.notation == CallNotation::xml_parameters ? json_call(name, any) : written_call(name, any);
  }

  // Of an object, with no members that nobody declared.
  static Json arguments_schema(const Json* parameters) {
    Json schema = parameters != nullptr && parameters->is_object() ? *parameters : Json(Json::Object{});
    const auto has = [&](const char* keyword) { return schema.find(keyword) != nullptr; };
    const bool is_plain = !has("$ref") && !has("allOf") && !has("anyOf") && !has("oneOf") && !has("enum");
    if (is_plain && !has("additionalProperties")) schema.add("additionalProperties", false);
    if (!has("type")) schema.add("type", "object");
    return schema;
  }

  Result<Expression> written_call(const std::string& name, const Json& schema) {
    switch (calls_.notation) {
      case CallNotation::gemma4: {
        TRY(const Expression arguments, value(*gemma4_, schema));
        return builder_.sequence({builder_.text("call:" + name), arguments});
      }
      case CallNotation::xml_parameters: return parameters_call(name, schema);
      case CallNotation::xml_json: return json_call(name, schema);
      case CallNotation::deepseek: {
        TRY(const Expression arguments, value(json_, schema));
        return builder_.sequence({builder_.text(name + marker_text(kFirstInnerMarker)), arguments});
      }
      case CallNotation::deepseek_fenced: {
        TRY(const Expression arguments, value(json_, schema));
        return builder_.sequence({builder_.text("function" + marker_text(kFirstInnerMarker) + name + "\n```json\n"),
                                  arguments, builder_.text("\n```")});
      }
    }
    return error(ErrorKind::unsupported, "the notation of calls is unknown");
  }

  Result<Expression> value(JsonParts& parts, const Json& schema) {
    TRY(const RuleId rule, add_schema(builder_, parts, schema, schema, "#", {.closed = true}));
    return builder_.call(rule);
  }

  Result<Expression> json_call(const std::string& name, const Json& schema) {
    TRY(const Expression arguments, value(json_, schema));
    return builder_.sequence(
        {builder_.text(cat("\n{\"name\": ", quoted_json(name), ", \"arguments\": ")), arguments, builder_.text("}\n")});
  }

  // A parameter for each property, in their order. Strings among the values are raw text.
  Result<Expression> parameters_call(const std::string& name, const Json& schema) {
    for (const auto& [keyword, unused] : schema.as_object()) {
      const bool is_known =
          keyword == "type" || keyword == "properties" || keyword == "required" || keyword == "additionalProperties";
      const bool is_combination = keyword == "$ref" || keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf";
      if (!is_known && (is_combination || is_assertion(keyword)))
        return error(ErrorKind::unsupported, "#: ", printable(keyword),
                     ": cannot be honoured for this model's calls: want an object with properties");
    }
    const Json *properties = schema.find("properties"), *required = schema.find("required");
    std::vector<std::string> needed;
    if (required != nullptr && required->is_array())
      for (const Json& one : required->as_array())
        if (one.is_string()) needed.push_back(one.as_string());
    std::vector<ListItem> items;
    if (properties != nullptr && properties->is_object()) {
      for (const auto& [key, one] : properties->as_object()) {
        if (key.empty() || key.find_first_of("> \t\r\n") != std::string::npos)
          return error(ErrorKind::unsupported, "#/properties: ", printable(key), ": cannot be a parameter's name");
        TRY(const RuleId rule,
            add_schema(builder_, json_, schema, one, "#/properties/" + key, {.closed = true, .raw_text = raw_text_}));
        const Expression whole = builder_.sequence({builder_.text(cat("<parameter=", key, ">\n")), builder_.call(rule),
                                                    builder_.text(cat("\n", kParameterEnd, "\n"))});
        const bool is_needed = std::erase(needed, key) > 0;
        items.push_back({.expression = whole, .required = is_needed});
      }
    }
    if (!needed.empty())
      return error(ErrorKind::unsupported, "#: required: ", printable(needed.front()),
                   ": is no property: want only names of properties");
    const Expression all = builder_.list(std::move(items), builder_.empty());
    return builder_.sequence({builder_.text(cat("\n<function=", name, ">\n")), all, builder_.text("</function>\n")});
  }

  const CallForm& calls_;
  GrammarBuilder builder_;
  JsonParts json_;
  std::optional<JsonParts> gemma4_;
  std::optional<Expression> raw_text_;
};

}  // namespace

Result<Grammar> grammar_of_calls(const CallForm& calls) { return CallCompiler(calls).compile(); }

}  // namespace sluice

#include "text/dialects/tool_syntax.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "text/dialects/gemma4_notation.h"
#include "text/grammar/schema_terms.h"

namespace sluice {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

Error bad_call(std::string_view body, std::string_view want) {
  return error(ErrorKind::invalid, "call of a tool: ", printable(body), ": want ", want);
}

Result<Json> read_arguments(std::string_view text) {
  TRY(Json arguments, parse_json(trimmed(text), "arguments"));
  if (!arguments.is_object()) return bad_call(text, "an object of arguments");
  return arguments;
}

// --- xml

// Some models spell values as Python does.
std::string_view as_json(std::string_view value) {
  if (value == "True") return "true";
  if (value == "False") return "false";
  return value == "None" ? "null" : value;
}

bool has_kind(const Json& value, std::string_view type) {
  if (type == "integer") return value.is_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_bool();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

const char* type_of(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_null()) return "null";
  return value.is_array() ? "array" : "object";
}

// The types that a schema allows, in its order: "type" may be a list, and "anyOf" has schemas of its own. A stranger's
// schema may refer to itself, so the number of schemas that are looked at is bounded.
class TypeFinder {
 public:
  explicit TypeFinder(const Json& root) : root_(&root) {}

  std::vector<std::string> find(const Json* schema) {
    if (schema != nullptr) add(*schema);
    return std::move(types_);
  }

 private:
  void add(const Json& schema) {
    if (--schemas_left_ < 0 || depth_ > kMaxGrammarDepth) return;
    ++depth_;
    const size_t before = types_.size();
    const Json *reference = schema.find("$ref"), *type = schema.find("type");
    if (reference != nullptr && reference->is_string())
      if (const Result<const Json*> target = SchemaTerms(*root_).resolve(reference->as_string(), "#")) add(**target);
    if (type != nullptr && type->is_string()) types_.push_back(type->as_string());
    if (type != nullptr && type->is_array())
      for (const Json& one : type->as_array())
        if (one.is_string()) types_.push_back(one.as_string());
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const Json* schemas = schema.find(keyword);
      if (schemas == nullptr || !schemas->is_array()) continue;
      for (const Json& one : schemas->as_array()) add(one);
    }
    if (types_.size() == before) add_values(schema);
    --depth_;
  }
  void add_values(const Json& schema) {
    if (const Json* values = schema.find("enum"); values != nullptr && values->is_array())
      for (const Json& value : values->as_array()) types_.emplace_back(type_of(value));
    if (const Json* value = schema.find("const")) types_.emplace_back(type_of(*value));
  }

  const Json* root_;
  std::vector<std::string> types_;
  int schemas_left_ = 1000, depth_ = 0;
};

// The value of a parameter is plain text. Its type follows from the schema; without one only lists and objects are
// read as JSON.
Json read_value(std::string_view text, const Json* schema, const Json& root) {
  std::vector<std::string> types = TypeFinder(root).find(schema);
  if (types.empty()) types = {"array", "object"};
  const Result<Json> read = parse_json(as_json(trimmed(text)), "value");
  for (const std::string& type : types) {
    if (type == "string") break;
    if (read && has_kind(*read, type)) return *read;
  }
  return std::string(text);
}

// One newline before a value and one behind it belong to the syntax.
std::string_view without_own_newlines(std::string_view value) {
  if (starts_with(value, "\n")) value.remove_prefix(1);
  if (ends_with(value, "\n")) value.remove_suffix(1);
  return value;
}

// Where the value ends: before a closing tag that a tag or the end follows, because a value may mention the tag.
size_t value_end(std::string_view text, std::string_view close) {
  for (size_t at = text.find(close); at != std::string_view::npos; at = text.find(close, at + 1)) {
    const std::string_view rest = trimmed(text.substr(at + close.size()));
    if (rest.empty() || starts_with(rest, "<parameter=") || starts_with(rest, "</function>")) return at;
  }
  return std::string_view::npos;
}

// `text`: behind "<function=".
Result<ToolCall> read_function(std::string_view text, const Json& tools) {
  constexpr std::string_view kParameter = "<parameter=", kEnd = "</parameter>";
  const size_t name_end = text.find('>');
  if (name_end == std::string_view::npos) return bad_call(text, "> behind the function's name");
  ToolCall call{.name = std::string(trimmed(text.substr(0, name_end))), .arguments = Json::Object{}};
  if (call.name.empty()) return bad_call(text, "a function's name");
  for (text = trimmed(text.substr(name_end + 1)); starts_with(text, kParameter); text = trimmed(text)) {
    text.remove_prefix(kParameter.size());
    const size_t key_end = text.find('>');
    const size_t end = value_end(text, kEnd);
    if (key_end == std::string_view::npos || end == std::string_view::npos || end < key_end)
      return bad_call(text, "</parameter> behind the parameter's value");
    const std::string key(trimmed(text.substr(0, key_end)));
    const std::string_view value = without_own_newlines(text.substr(key_end + 1, end - key_end - 1));
    if (call.arguments.find(key) != nullptr) return bad_call(key, "each parameter once");
    const Json* root = find_parameters(tools, call.name);
    call.arguments.add(key, read_value(value, find_parameter(tools, call.name, key), root == nullptr ? Json() : *root));
    text.remove_prefix(end + kEnd.size());
  }
  if (text != "</function>") return bad_call(text, "</function>");
  return call;
}

Result<ToolCall> read_json_call(std::string_view text) {
  TRY(const Json json, parse_json(text, "call of a tool"));
  const Json* name = json.find("name");
  const Json* arguments = json.find("arguments");
  if (name == nullptr || !name->is_string()) return bad_call(text, "a member \"name\"");
  ToolCall call{.name = name->as_string(), .arguments = Json::Object{}};
  if (arguments == nullptr || arguments->is_null()) return call;
  TRY(call.arguments, read_arguments(arguments->is_string() ? arguments->as_string() : write_json(*arguments)));
  return call;
}

Result<ToolCall> parse_xml(std::string_view body, const Json& tools) {
  constexpr std::string_view kFunction = "<function=";
  const std::string_view text = trimmed(body);
  if (starts_with(text, kFunction)) return read_function(text.substr(kFunction.size()), tools);
  if (starts_with(text, "{")) return read_json_call(text);
  return bad_call(text, "<function=NAME> or an object");
}

// --- deepseek

constexpr std::string_view kSeparator = "<｜tool▁sep｜>";

// The object between "```json" and "```".
std::string_view without_fence(std::string_view text) {
  constexpr std::string_view kFence = "```";
  text = trimmed(text);
  if (!starts_with(text, kFence)) return text;
  text.remove_prefix(std::min(text.find('\n'), text.size()));
  if (ends_with(text, kFence)) text.remove_suffix(kFence.size());
  return text;
}

Result<ToolCall> parse_deepseek(std::string_view body, const Json& /*tools*/) {
  const size_t at = body.find(kSeparator);
  if (at == std::string_view::npos) return bad_call(body, cat("NAME", kSeparator, "{...}"));
  std::string_view name = trimmed(body.substr(0, at)), rest = trimmed(body.substr(at + kSeparator.size()));
  if (name == "function" && !starts_with(rest, "{")) {
    const size_t line = std::min(rest.find('\n'), rest.size());
    name = trimmed(rest.substr(0, line));
    rest.remove_prefix(line);
  }
  if (name.empty()) return bad_call(body, "a function's name");
  TRY(Json arguments, read_arguments(without_fence(rest)));
  return ToolCall{.name = std::string(name), .arguments = std::move(arguments)};
}

// --- the list

constexpr std::string_view kGemmaInner[] = {kGemma4Quote};
constexpr std::string_view kDeepSeekInner[] = {kSeparator};
constexpr std::string_view kDeepSeekOuter[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"};

constexpr ToolSyntax kSyntaxes[] = {
    {.name = "gemma4",
     .open = "<|tool_call>",
     .close = "<tool_call|>",
     .inner = kGemmaInner,
     .parse = parse_gemma4_call},
    {.name = "xml", .open = "<tool_call>", .close = "</tool_call>", .parse = parse_xml},
    {.name = "deepseek",
     .open = "<｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜>",
     .inner = kDeepSeekInner,
     .outer = kDeepSeekOuter,
     .parse = parse_deepseek},
};

}  // namespace

std::span<const ToolSyntax> tool_syntaxes() { return kSyntaxes; }

CallNotation detect_call_notation(const ToolSyntax& syntax, std::string_view template_text) {
  const auto writes = [&](std::string_view text) { return template_text.find(text) != std::string_view::npos; };
  if (syntax.parse == parse_gemma4_call) return CallNotation::gemma4;
  if (syntax.parse == parse_xml) return writes("<function=") ? CallNotation::xml_parameters : CallNotation::xml_json;
  return writes("```json") ? CallNotation::deepseek_fenced : CallNotation::deepseek;
}

const Json* find_parameter(const Json& tools, std::string_view tool, std::string_view parameter) {
  const Json* parameters = find_parameters(tools, tool);
  const Json* properties = parameters == nullptr ? nullptr : parameters->find("properties");
  return properties == nullptr ? nullptr : properties->find(parameter);
}

const Json* find_parameters(const Json& tools, std::string_view tool) {
  if (!tools.is_array()) return nullptr;
  for (const Json& one : tools.as_array()) {
    const Json* function = one.find("function");
    if (function == nullptr) function = &one;
    const Json* name = function->find("name");
    if (name == nullptr || !name->is_string() || name->as_string() != tool) continue;
    return function->find("parameters");
  }
  return nullptr;
}

}  // namespace sluice

#include "serve/form_fields.h"

#include <string>
#include <utility>

namespace sluice {
namespace {

using Kind = GrammarSource::Kind;

Checked take_form(const std::string& param, GrammarSource source, AnswerRequest& request) {
  if (request.form) return refuse(param, param, ": the request asks for another form as well: want one of them");
  request.form = {.param = param, .source = std::move(source)};
  return Fine{};
}

Checked take_schema(const std::string& param, const Json& schema, AnswerRequest& request) {
  return take_form(param, {.kind = Kind::json_schema, .schema = schema}, request);
}

// Some clients send the schema as text.
Checked take_written_schema(Fields& fields, std::string_view name, AnswerRequest& request) {
  const Json* schema = fields.find(name);
  if (schema == nullptr) return Fine{};
  const std::string param = fields.path(name);
  if (!schema->is_string()) return take_schema(param, *schema, request);
  if (schema->as_string().empty()) return Fine{};
  TRY(const Json read, parse_json(schema->as_string(), param));
  return take_schema(param, read, request);
}

Checked take_text(Fields& fields, std::string_view name, Kind kind, AnswerRequest& request) {
  TRY(std::optional<std::string> text, fields.text(name));
  if (!text || text->empty()) return Fine{};
  return take_form(fields.path(name), {.kind = kind, .text = *std::move(text)}, request);
}

Checked take_choice(Fields& fields, std::string_view name, AnswerRequest& request) {
  TRY(const Json* list, fields.array(name));
  if (list == nullptr) return Fine{};
  GrammarSource source{.kind = Kind::choice};
  for (const Json& one : list->as_array()) {
    if (!one.is_string()) return fields.wrong(name, *list, "a list of strings");
    source.choices.push_back(one.as_string());
  }
  return take_form(fields.path(name), source, request);
}

// llama.cpp's server takes the schema beside the type, too.
Checked read_response_format(Fields& fields, AnswerRequest& request) {
  TRY(const Json* format, fields.object("response_format"));
  if (format == nullptr) return Fine{};
  Fields of_format(*format, "response_format.");
  TRY(const std::optional<std::string> type, of_format.text("type"));
  if (type == "text") return Fine{};
  const Json* schema = of_format.find("schema");
  if (type == "json_object") {
    if (schema != nullptr) return take_schema("response_format.schema", *schema, request);
    return take_form("response_format", {.kind = Kind::json_object}, request);
  }
  if (type != "json_schema") return fields.wrong("response_format", *format, "type text, json_object or json_schema");
  if (schema != nullptr) return take_schema("response_format.schema", *schema, request);
  TRY(const Json* named, of_format.object("json_schema"));
  schema = named == nullptr ? nullptr : named->find("schema");
  if (schema == nullptr)
    return refuse("response_format", "response_format.json_schema.schema is missing: want a schema");
  return take_schema("response_format.json_schema.schema", *schema, request);
}

}  // namespace

Checked read_openai_form(Fields& fields, AnswerRequest& request) {
  TRY_STATUS(read_response_format(fields, request));
  TRY_STATUS(take_text(fields, "grammar", Kind::gbnf, request));
  TRY_STATUS(take_written_schema(fields, "json_schema", request));
  TRY_STATUS(take_written_schema(fields, "guided_json", request));
  TRY_STATUS(take_text(fields, "guided_regex", Kind::regex, request));
  TRY_STATUS(take_choice(fields, "guided_choice", request));
  TRY_STATUS(take_text(fields, "guided_grammar", Kind::gbnf, request));
  TRY(const Json* structured, fields.object("structured_outputs"));
  if (structured == nullptr) return fields.refuse_any({"structural_tag"}, "is not supported");
  Fields of_structured(*structured, "structured_outputs.");
  TRY_STATUS(take_written_schema(of_structured, "json", request));
  TRY_STATUS(take_text(of_structured, "regex", Kind::regex, request));
  TRY_STATUS(take_choice(of_structured, "choice", request));
  TRY_STATUS(take_text(of_structured, "grammar", Kind::gbnf, request));
  TRY(const std::optional<bool> object, of_structured.boolean("json_object"));
  if (object.value_or(false))
    TRY_STATUS(take_form("structured_outputs.json_object", {.kind = Kind::json_object}, request));
  TRY_STATUS(of_structured.refuse_any({"structural_tag", "whitespace_pattern"}, "is not supported"));
  return fields.refuse_any({"structural_tag"}, "is not supported");
}

Checked read_response_form(Fields& text, AnswerRequest& request) {
  TRY(const Json* format, text.object("format"));
  if (format == nullptr) return Fine{};
  Fields of_format(*format, text.path("format."));
  TRY(const std::optional<std::string> type, of_format.text("type"));
  if (type == "text") return Fine{};
  if (type == "json_object") return take_form(text.path("format"), {.kind = Kind::json_object}, request);
  if (type != "json_schema") return text.wrong("format", *format, "type text, json_object or json_schema");
  const Json* schema = of_format.find("schema");
  if (schema == nullptr)
    return refuse(of_format.path("schema"), of_format.path("schema"), " is missing: want a schema");
  return take_schema(of_format.path("schema"), *schema, request);
}

Checked read_anthropic_form(Fields& output_config, AnswerRequest& request) {
  TRY(const Json* format, output_config.object("format"));
  if (format == nullptr) return Fine{};
  const std::string param = output_config.path("format");
  const Json *type = format->find("type"), *schema = format->find("schema");
  if (type == nullptr || !type->is_string() || type->as_string() != "json_schema" || schema == nullptr)
    return output_config.wrong("format", *format, "{\"type\": \"json_schema\", \"schema\": ...}");
  return take_schema(param + ".schema", *schema, request);
}

Checked read_ollama_form(Fields& fields, AnswerRequest& request) {
  const Json* format = fields.find("format");
  if (format == nullptr || (format->is_string() && format->as_string().empty())) return Fine{};
  if (format->is_string() && format->as_string() == "json")
    return take_form("format", {.kind = Kind::json_object}, request);
  if (!format->is_object()) return fields.wrong("format", *format, "json or a schema");
  return take_schema("format", *format, request);
}

}  // namespace sluice

#include "serve/tool_fields.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

using Use = ToolChoice::Use;

// The name in {"type": "function", "function": {"name": ...}} or {"type": "function", "name": ...}.
const std::string* function_name(const Json& chosen) {
  const Json* function = chosen.find("function");
  const Json* name = (function == nullptr ? &chosen : function)->find("name");
  return name != nullptr && name->is_string() ? &name->as_string() : nullptr;
}

const std::string& tool_name(const Json& tool) { return tool.find("function")->find("name")->as_string(); }

bool is_strict(const Json& tool) {
  const Json* strict = tool.find("function")->find("strict");
  return strict != nullptr && strict->is_bool() && strict->as_bool();
}

// allowed_tools: {"mode": "auto" or "required", "tools": [...]}, within an object of its own or not.
Outcome<ToolChoice> read_allowed(Fields& fields, const Json& choice) {
  const Json* within = choice.find("allowed_tools");
  const Json& allowed = within == nullptr ? choice : *within;
  const Json *mode = allowed.find("mode"), *tools = allowed.find("tools");
  ToolChoice read;
  const bool must = mode != nullptr && mode->is_string() && mode->as_string() == "required";
  const bool may = mode == nullptr || (mode->is_string() && mode->as_string() == "auto");
  if ((!must && !may) || tools == nullptr || !tools->is_array() || tools->as_array().empty())
    return fields.wrong("tool_choice", choice, "a mode, auto or required, and a list of tools");
  read.use = must ? Use::must : Use::may;
  for (const Json& tool : tools->as_array()) {
    const std::string* name = function_name(tool);
    if (name == nullptr) return fields.wrong("tool_choice", tool, "functions with names");
    read.only.push_back(*name);
  }
  return read;
}

// Those that may be called.
Json chosen_tools(const AnswerRequest& request) {
  Json::Array list;
  for (const Json& tool : request.variables.find("tools")->as_array())
    if (request.only_tools.empty() ||
        std::ranges::find(request.only_tools, tool_name(tool)) != request.only_tools.end())
      list.push_back(tool);
  return list;
}

// The schema of a form that may stand beside calls.
Outcome<Json> form_schema(const AnswerForm& form) {
  if (form.source.kind == GrammarSource::Kind::json_schema) return form.source.schema;
  if (form.source.kind == GrammarSource::Kind::json_object) return Json(Json::Object{{"type", "object"}});
  return refuse(form.param, form.param, " beside tools cannot be honoured: want one of them, or a schema");
}

Checked compile_form(const std::string& param, const GrammarSource& source, const ServedModel& model,
                     AnswerRequest& request) {
  auto grammar = model.text->grammars->compile(model.text->tokenizer, source, model.text->tool_syntax);
  if (!grammar) return refuse(param, param, ": ", grammar.error().text);
  request.settings.grammar = *std::move(grammar);
  return Fine{};
}

}  // namespace

Outcome<ToolChoice> read_openai_choice(Fields& fields) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return ToolChoice{};
  if (choice->is_string()) {
    if (choice->as_string() == "none") return ToolChoice{.use = Use::none};
    if (choice->as_string() == "auto") return ToolChoice{};
    if (choice->as_string() == "required") return ToolChoice{.use = Use::must};
  }
  const Json* type = choice->find("type");
  if (type != nullptr && type->is_string() && type->as_string() == "allowed_tools")
    return read_allowed(fields, *choice);
  const std::string* name = function_name(*choice);
  if (type != nullptr && type->is_string() && type->as_string() == "function" && name != nullptr)
    return ToolChoice{.use = Use::must, .only = {*name}};
  return fields.wrong("tool_choice", *choice, "none, auto, required, a function with its name, or allowed_tools");
}

Checked take_tools(Json tools, const ToolChoice& choice, const ServedModel& model, AnswerRequest& request) {
  if (choice.use == Use::none) return Fine{};
  if (tools.as_array().empty()) {
    if (choice.use == Use::may && choice.only.empty()) return Fine{};
    return refuse("tool_choice", "tool_choice: there is no tool that could be called: want tools");
  }
  if (!model.calls_tools()) return refuse("tools", "tools: the model ", printable(model.id()), " calls no tools");
  for (const std::string& name : choice.only)
    if (std::ranges::find(tools.as_array(), name, tool_name) == tools.as_array().end())
      return refuse("tool_choice", "tool_choice names ", printable(name), ": want one of the tools");
  request.must_call = choice.use == Use::must;
  request.only_tools = choice.only;
  request.variables.add("tools", std::move(tools));
  return Fine{};
}

Checked settle_grammar(const ServedModel& model, AnswerRequest& request) {
  const Json* tools = request.variables.find("tools");
  if (tools == nullptr) {
    if (!request.form) return Fine{};
    return compile_form(request.form->param, request.form->source, model, request);
  }
  const bool any_strict = std::ranges::any_of(tools->as_array(), is_strict);
  if (!request.must_call && !request.form && !any_strict && request.only_tools.empty()) return Fine{};
  GrammarSource source{.kind = GrammarSource::Kind::calls};
  source.calls.notation = model.text->call_notation;
  source.calls.tools = chosen_tools(request);
  source.calls.only_call = !request.must_call && !request.form;
  if (request.settings.max_calls > 0) source.calls.most = request.settings.max_calls;
  if (request.form && !request.must_call) TRY_ASSIGN(source.calls.form, form_schema(*request.form));
  const std::string param = request.form ? request.form->param : any_strict ? "tools" : "tool_choice";
  return compile_form(param, source, model, request);
}

}  // namespace sluice

#include "app/run/tool_options.h"

#include <optional>
#include <utility>

#include "app/run/form_options.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "serve/openai/messages.h"
#include "serve/tool_fields.h"

namespace sluice {
namespace {

Json choice_of(const std::string& given) {
  if (given == "auto" || given == "none" || given == "required") return given;
  return Json::Object{{"type", "function"}, {"function", Json::Object{{"name", given}}}};
}

// The two options as fields of a request.
Result<Json> fields_of(const Arguments& arguments) {
  const std::string path = arguments.text("--tools");
  TRY(const std::string text, read_file(path, kMaxDocumentBytes));
  TRY(Json tools, parse_json(text, path));
  if (!tools.is_array()) return error(ErrorKind::invalid, path, ": is no list: want OpenAI's list of tools");
  return Json(Json::Object{{"tools", std::move(tools)}, {"tool_choice", choice_of(arguments.text("--tool-choice"))}});
}

Error as_error(const Refusal& refusal) { return error(ErrorKind::invalid, "--tools: ", refusal.message); }

}  // namespace

std::vector<OptionSpec> tool_options() {
  return {
      {.name = "--tools",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "JSON with a list of tools, as OpenAI's API takes it. A call of the model is printed as one line: the "
               "tool's name and its arguments as JSON. In a chat /result gives it what the tool said"},
      {.name = "--tool-choice",
       .argument = "auto|none|required|NAME",
       .kind = OptionKind::text,
       .fallback = "auto",
       .help = "whether the model must call a tool, or that one, in answer to a question"},
  };
}

Status check_tools(const Arguments& arguments) {
  if (!arguments.given("--tools")) {
    if (!arguments.given("--tool-choice")) return {};
    return error(ErrorKind::invalid, "--tool-choice without --tools: want both");
  }
  TRY(const Json body, fields_of(arguments));
  if (const Outcome<Json> tools = checked_tools(*body.find("tools")); !tools) return as_error(tools.error());
  return {};
}

Status take_tool_options(const Arguments& arguments, const TextParts& text, const Model& model,
                         ConversationSettings& settings) {
  if (!arguments.given("--tools")) return {};
  TRY(const Json body, fields_of(arguments));
  TRY(std::optional<GrammarSource> form, form_source(arguments));
  ServedModel served;
  served.names = {model.facts().name};
  served.describe(model, text);
  served.text = &text;
  AnswerRequest request;
  request.variables = Json::Object{};
  if (form) request.form = AnswerForm{form_name(arguments), *std::move(form)};
  Fields fields(body);
  if (const Checked read = read_openai_tools(fields, served, request); !read) return as_error(read.error());
  if (const Checked settled = settle_grammar(served, request); !settled) return as_error(settled.error());
  if (const Json* tools = request.variables.find("tools")) settings.tools = *tools;
  settings.must_call = request.must_call;
  settings.turn.grammar = std::move(request.settings.grammar);
  return {};
}

}  // namespace sluice

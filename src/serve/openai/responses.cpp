// Responses: the request of OpenAI's newer API. Nothing is stored, so each request brings its whole conversation.
#include <utility>

#include "base/text.h"
#include "serve/form_fields.h"
#include "serve/openai/messages.h"
#include "serve/openai/openai.h"
#include "serve/openai/response_items.h"
#include "serve/openai/response_writer.h"
#include "serve/openai/thinking.h"
#include "serve/sampling_fields.h"
#include "serve/tool_fields.h"

namespace sluice {
namespace {

constexpr std::string_view kIncludedLogProbs = "message.output_text.logprobs";
constexpr size_t kMostIncluded = 16;

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

Checked check_stored(Fields& fields) {
  TRY_STATUS(fields.refuse_any({"previous_response_id", "conversation"},
                               "responses are not stored: want the whole conversation in input"));
  return fields.refuse_any({"background", "prompt"}, "is not supported");
}

// The instructions and the system's first messages as one, because templates know one message of the system.
void join_opening(const std::optional<std::string>& instructions, Json::Array& messages) {
  std::string text = instructions.value_or("");
  bool is_there = instructions.has_value();
  auto at = messages.begin();
  for (; at != messages.end() && at->find("role")->as_string() == "system"; ++at) {
    text += cat(text.empty() ? "" : "\n\n", at->find("content")->as_string());
    is_there = true;
  }
  messages.erase(messages.begin(), at);
  if (is_there) messages.insert(messages.begin(), Json::Object{{"role", "system"}, {"content", std::move(text)}});
}

Checked read_input(Fields& fields, const ServedModel& model, AnswerRequest& request, Json& repeated) {
  const Json* input = fields.find("input");
  if (input == nullptr) return refuse("input", "input is missing: want some text or a list of items");
  TRY(const std::optional<std::string> instructions, fields.text("instructions"));
  TRY(Json messages, response_messages(*input, request));
  join_opening(instructions, messages.as_array());
  if (messages.as_array().empty()) return refuse("input", "input has no message: want at least one");
  add_stored_system(messages, model);
  request.messages = std::move(messages);
  repeated.add("instructions", text_or_null(instructions));
  return Fine{};
}

// The reply has the functions that the model was told of, with all members that the API promises.
Json repeated_tools(const Json& tools) {
  Json::Array list;
  for (const Json& tool : tools.as_array()) {
    const Json& function = *tool.find("function");
    Json one = Json::Object{{"type", "function"}};
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      const Json* value = function.find(name);
      one.add(name, value != nullptr ? *value : std::string_view(name) == "strict" ? Json(false) : Json());
    }
    list.push_back(std::move(one));
  }
  return list;
}

Checked read_tools(Fields& fields, const ServedModel& model, AnswerRequest& request, Json& repeated) {
  TRY(const Json* tools, fields.array("tools"));
  TRY(const std::optional<bool> parallel, fields.boolean("parallel_tool_calls"));
  TRY(const ToolChoice choice, read_openai_choice(fields));
  if (!parallel.value_or(true)) request.settings.max_calls = 1;
  Json list = Json::Array{};
  if (tools != nullptr) TRY_ASSIGN(list, response_tools(*tools, request.ignored));
  const Json* chosen = fields.find("tool_choice");
  repeated.add("tools", repeated_tools(list));
  repeated.add("tool_choice", chosen == nullptr ? Json("auto") : *chosen);
  repeated.add("parallel_tool_calls", parallel.value_or(true));
  return take_tools(std::move(list), choice, model, request);
}

Checked read_reasoning(Fields& fields, const ServedModel& model, AnswerRequest& request, Json& repeated) {
  TRY(const Json* reasoning, fields.object("reasoning"));
  Json effort;
  if (reasoning != nullptr) {
    Fields of_reasoning(*reasoning, "reasoning.");
    TRY_STATUS(read_effort(of_reasoning, "effort", model, request));
    if (const Json* given = of_reasoning.find("effort")) effort = *given;
    for (std::string& unread : of_reasoning.unread()) request.ignored.push_back(std::move(unread));
  }
  TRY_STATUS(read_thought_budget(fields, model, request));
  repeated.add("reasoning", Json::Object{{"effort", std::move(effort)}, {"summary", {}}});
  return Fine{};
}

Checked read_form(Fields& fields, AnswerRequest& request, Json& repeated) {
  TRY(const Json* text, fields.object("text"));
  Json format = Json::Object{{"type", "text"}};
  if (text != nullptr) {
    Fields of_text(*text, "text.");
    TRY_STATUS(read_response_form(of_text, request));
    if (const Json* given = of_text.find("format")) format = *given;
    for (std::string& unread : of_text.unread()) request.ignored.push_back(std::move(unread));
  }
  repeated.add("text", Json::Object{{"format", std::move(format)}});
  return read_openai_form(fields, request);
}

// Log-probabilities are the only addition that `include` can ask for here.
Checked read_include(Fields& fields, AnswerRequest& request, Json& repeated) {
  TRY(const std::vector<std::string> include, fields.texts("include", kMostIncluded));
  TRY(const std::optional<int64_t> top, fields.integer("top_logprobs", 0, kCandidates));
  for (size_t i = 0; i < include.size(); ++i)
    if (include[i] == kIncludedLogProbs)
      request.settings.log_probs = LogProbs::answer;
    else
      request.ignored.push_back(cat("include[", i, "] (", printable(include[i]), ')'));
  if (top.value_or(0) > 0 && request.settings.log_probs == LogProbs::none)
    return refuse("top_logprobs", "top_logprobs without log-probabilities: want include with ", kIncludedLogProbs);
  request.settings.sampling.candidates = static_cast<uint32_t>(top.value_or(0));
  repeated.add("top_logprobs", top.value_or(0));
  return Fine{};
}

// The number that was asked for: 0.95, not the f32 next to it.
Json written_back(float number) { return *parse_number(cat(double{number})); }

Checked read_limits(Fields& fields, AnswerRequest& request, Json& repeated) {
  TRY(const std::optional<int64_t> most, fields.integer("max_output_tokens", 1, UINT32_MAX));
  request.settings.max_tokens = static_cast<uint32_t>(most.value_or(0));
  repeated.add("max_output_tokens", most ? Json(*most) : Json());
  repeated.add("temperature", written_back(request.settings.sampling.temperature));
  repeated.add("top_p", written_back(request.settings.sampling.top_p));
  TRY(const Json* metadata, fields.object("metadata"));
  repeated.add("metadata", metadata == nullptr ? Json(Json::Object{}) : *metadata);
  return Fine{};
}

// Fields that ask for what happens anyway are honoured; others are named.
void note_ignored(Fields& fields, AnswerRequest& request) {
  const auto is = [&](const char* name, const Json& wanted) {
    const Json* given = fields.find(name);
    return given == nullptr || write_json(*given) == write_json(wanted);
  };
  if (!is("store", false)) request.ignored.emplace_back("store");
  if (!is("truncation", "disabled")) request.ignored.emplace_back("truncation");
  for (std::string& unread : fields.unread()) request.ignored.push_back(std::move(unread));
}

}  // namespace

Outcome<AnswerRequest> read_openai_response(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request{.variables = Json::Object{}, .settings = first_settings(model)};
  Json repeated = Json::Object{};
  TRY(const std::optional<std::string> name, fields.text("model"));
  request.model = name.value_or(model.id());
  if (!model.chats())
    return refuse("input", "the model ", printable(model.id()), " has no chat template: want /v1/completions");
  TRY_STATUS(check_stored(fields));
  TRY_STATUS(read_input(fields, model, request, repeated));
  TRY_STATUS(read_openai_sampling(fields, model, request.settings));
  TRY_STATUS(take_priority(fields, request));
  TRY_STATUS(read_limits(fields, request, repeated));
  TRY_STATUS(read_tools(fields, model, request, repeated));
  TRY_STATUS(read_reasoning(fields, model, request, repeated));
  TRY_STATUS(read_form(fields, request, repeated));
  TRY_STATUS(read_include(fields, request, repeated));
  TRY_STATUS(settle_grammar(model, request));
  TRY_STATUS(read_template_variables(fields, request));
  TRY(const std::optional<bool> stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  note_ignored(fields, request);
  request.writer = make_response_writer(std::move(repeated));
  return request;
}

}  // namespace sluice

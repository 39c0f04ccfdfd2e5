#include "serve/anthropic/anthropic.h"

#include <ctime>

#include "serve/anthropic/blocks.h"
#include "serve/anthropic/message_writer.h"
#include "serve/form_fields.h"
#include "serve/openai/messages.h"
#include "serve/prefill.h"
#include "serve/sampling_fields.h"
#include "serve/tool_fields.h"

namespace sluice {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 529: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

Outcome<ToolChoice> read_choice(Fields& fields, AnswerRequest& request) {
  TRY(const Json* choice, fields.object("tool_choice"));
  if (choice == nullptr) return ToolChoice{};
  Fields of_choice(*choice, "tool_choice.");
  TRY(const std::optional<std::string> type, of_choice.text("type"));
  TRY(const std::optional<bool> alone, of_choice.boolean("disable_parallel_tool_use"));
  TRY(const std::optional<std::string> name, of_choice.text("name"));
  if (alone && *alone) request.settings.max_calls = 1;
  if (type == "auto") return ToolChoice{};
  if (type == "none") return ToolChoice{.use = ToolChoice::Use::none};
  if (type == "any") return ToolChoice{.use = ToolChoice::Use::must};
  if (type == "tool" && name) return ToolChoice{.use = ToolChoice::Use::must, .only = {*name}};
  return fields.wrong("tool_choice", *choice, "type auto, any, none, or tool with its name");
}

Checked read_tools(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  TRY(const Json* tools, fields.array("tools"));
  TRY(const ToolChoice choice, read_choice(fields, request));
  Json list = Json::Array{};
  if (tools != nullptr) TRY_ASSIGN(list, anthropic_tools(*tools, request.ignored));
  return take_tools(std::move(list), choice, model, request);
}

Checked read_thinking(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  TRY(const Json* thinking, fields.object("thinking"));
  TRY(const Json* output, fields.object("output_config"));
  std::optional<bool> wanted;
  if (thinking != nullptr) {
    Fields of_thinking(*thinking, "thinking.");
    TRY(const std::optional<std::string> type, of_thinking.text("type"));
    if (type != "enabled" && type != "disabled" && type != "adaptive" && type != "between_tools")
      return fields.wrong("thinking", *thinking, "type enabled, disabled or adaptive");
    wanted = *type != "disabled";
    TRY(const std::optional<int64_t> budget, of_thinking.integer("budget_tokens", 0, kMostThought));
    if (budget && *wanted && model.thinks()) request.settings.thought_budget = static_cast<uint32_t>(*budget);
    for (std::string& unread : of_thinking.unread()) request.ignored.push_back(std::move(unread));
  }
  if (output != nullptr) {
    Fields of_output(*output, "output_config.");
    TRY_STATUS(read_anthropic_form(of_output, request));
    TRY(const std::optional<std::string> effort, of_output.text("effort"));
    if (effort) request.variables.add("reasoning_effort", *effort);
  }
  if (!wanted) return Fine{};
  if (*wanted && !model.thinks()) request.ignored.emplace_back("thinking");
  request.variables.add("enable_thinking", *wanted);
  return Fine{};
}

Checked read_sampling(Fields& fields, TurnSettings& settings) {
  TRY_STATUS(take_number(fields, "temperature", 0, 1, settings.sampling.temperature));
  TRY_STATUS(take_number(fields, "top_p", 0, 1, settings.sampling.top_p));
  TRY(const std::optional<int64_t> top_k, fields.integer("top_k", 0, 1 << 30));
  if (top_k) settings.sampling.top_k = static_cast<uint32_t>(*top_k);
  return take_stops(fields, "stop_sequences", settings);
}

Outcome<AnswerRequest> read_messages(const Json& body, const ServedModel& model, bool counts_only) {
  Fields fields(body);
  AnswerRequest request{.variables = Json::Object{}, .settings = first_settings(model)};
  TRY(const std::optional<std::string> name, fields.text("model"));
  request.model = name.value_or(model.id());
  TRY(const std::optional<int64_t> most, fields.integer("max_tokens", 1, UINT32_MAX));
  if (!most && !counts_only) return refuse("max_tokens", "max_tokens is missing: want a whole number");
  request.settings.max_tokens = static_cast<uint32_t>(most.value_or(1));
  if (!model.chats()) return refuse("messages", "the model ", printable(model.id()), " has no chat template");
  TRY_STATUS(read_anthropic_dialog(fields, request));
  add_stored_system(request.messages, model);
  TRY_STATUS(read_sampling(fields, request.settings));
  TRY_STATUS(read_tools(fields, model, request));
  TRY_STATUS(read_thinking(fields, model, request));
  TRY_STATUS(take_prefill(request, "thinking"));
  TRY_STATUS(settle_grammar(model, request));
  TRY_STATUS(fields.refuse_any({"container", "mcp_servers"}, "is not supported"));
  TRY(const std::optional<bool> stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  for (std::string& unread : fields.unread()) request.ignored.push_back(std::move(unread));
  request.writer = make_message_writer(request.settings.stops);
  return request;
}

}  // namespace

Outcome<AnswerRequest> read_anthropic_messages(const Json& body, const ServedModel& model) {
  return read_messages(body, model, /*counts_only=*/false);
}

Outcome<AnswerRequest> read_anthropic_count(const Json& body, const ServedModel& model) {
  return read_messages(body, model, /*counts_only=*/true);
}

int anthropic_status(const Refusal& refusal) { return refusal.status == 503 ? 529 : refusal.status; }

Json anthropic_error(const Refusal& refusal, const std::string& request_id) {
  return Json::Object{
      {"type", "error"},
      {"error", Json::Object{{"type", error_type(anthropic_status(refusal))}, {"message", refusal.message}}},
      {"request_id", request_id.empty() ? Json() : Json(request_id)}};
}

Json anthropic_model(const ModelCard& model) {
  const std::time_t created = model.created;
  std::tm utc = {};
  gmtime_r(&created, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return Json::Object{
      {"type", "model"}, {"id", model.id()}, {"display_name", model.id()}, {"created_at", std::string(date)}};
}

Json anthropic_models(Json::Array models) {
  Json first = *models.front().find("id"), last = *models.back().find("id");
  return Json::Object{
      {"data", std::move(models)}, {"has_more", false}, {"first_id", std::move(first)}, {"last_id", std::move(last)}};
}

}  // namespace sluice

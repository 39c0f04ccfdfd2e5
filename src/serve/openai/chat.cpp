// Chat completions: the request, the whole reply, and the stream of its chunks.
#include <algorithm>
#include <span>

#include "serve/form_fields.h"
#include "serve/openai/log_probs.h"
#include "serve/openai/messages.h"
#include "serve/openai/openai.h"
#include "serve/openai/thinking.h"
#include "serve/prefill.h"
#include "serve/sampling_fields.h"
#include "serve/tool_fields.h"

namespace sluice {
namespace {

// A call that was cut by the limit is text, so `length` says more than `tool_calls`.
const char* finish_reason(const AnsweredPart& part) {
  if (part.done.end == TurnEnd::length) return "length";
  return part.calls > 0 ? "tool_calls" : "stop";
}

class ChatWriter final : public AnswerWriter {
 public:
  ChatWriter(bool shows_usage, bool shows_log_probs) : shows_usage_(shows_usage), shows_log_probs_(shows_log_probs) {}

  std::string stream_begin() override {
    std::string text;
    for (uint32_t choice = 0; choice < facts_.choices; ++choice)
      text += chunk(choice, Json::Object{{"role", "assistant"}, {"content", ""}});
    return text;
  }

  std::string stream(const AnswerNews& news, const AnsweredPart& part) override {
    std::string text;
    size_t calls_before = part.calls;
    for (const TurnEvent& event : news.events) calls_before -= std::holds_alternative<ToolCallEvent>(event) ? 1 : 0;
    for (const TurnEvent& event : news.events) {
      if (const auto* piece = std::get_if<TextEvent>(&event))
        text += chunk(news.part, Json::Object{{"content", piece->text}}, {}, new_log_probs(news.part, part));
      if (const auto* piece = std::get_if<ThinkingEvent>(&event))
        text += chunk(news.part, Json::Object{{"reasoning_content", piece->text}});
      if (const auto* called = std::get_if<ToolCallEvent>(&event)) {
        Json call = call_json(news.part, calls_before, called->call);
        call.as_object().insert(call.as_object().begin(), {"index", static_cast<int64_t>(calls_before)});
        text += chunk(news.part, Json::Object{{"tool_calls", Json::Array{std::move(call)}}});
        ++calls_before;
      }
      if (!std::holds_alternative<DoneEvent>(event)) continue;
      Json rest = new_log_probs(news.part, part);
      text += chunk(news.part, Json::Object{}, finish_reason(part), std::move(rest));
    }
    return text;
  }

  std::string stream_end(const std::vector<AnsweredPart>& parts) override {
    std::string text;
    if (shows_usage_) {
      Json last = chunk_json(Json::Array{});
      last.add("usage", openai_usage(total_usage(parts, facts_.choices)));
      text = sse_text(last);
    }
    return text + "data: [DONE]\n\n";
  }

  std::string stream_failure(const Refusal& refusal) override { return sse_text(openai_error(refusal)); }

  Json whole(const std::vector<AnsweredPart>& parts) override {
    Json::Array choices;
    choices.reserve(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) choices.emplace_back(choice_json(i, parts[i]));
    Json reply = head_json("chat.completion");
    reply.add("choices", std::move(choices));
    reply.add("usage", openai_usage(total_usage(parts, facts_.choices)));
    return reply;
  }

 private:
  Json head_json(const char* object) const {
    return Json::Object{{"id", "chatcmpl-" + facts_.id},
                        {"object", object},
                        {"created", facts_.created},
                        {"model", facts_.model},
                        {"system_fingerprint", facts_.system_fingerprint}};
  }

  Json chunk_json(Json choices) const {
    Json json = head_json("chat.completion.chunk");
    json.add("choices", std::move(choices));
    return json;
  }

  // Of the tokens that have been shown since the last chunk that had any; null if there are none.
  Json new_log_probs(size_t index, const AnsweredPart& part) {
    if (!shows_log_probs_) return {};
    told_.resize(std::max(told_.size(), index + 1));
    const std::span<const TokenLogProb> fresh = std::span(part.log_probs).subspan(told_[index]);
    told_[index] = part.log_probs.size();
    return fresh.empty() ? Json() : chat_log_probs(fresh);
  }

  std::string chunk(size_t part, Json delta, Json reason = {}, Json log_probs = {}) const {
    Json json = chunk_json(Json::Array{Json::Object{{"index", static_cast<int64_t>(part)},
                                                    {"delta", std::move(delta)},
                                                    {"logprobs", std::move(log_probs)},
                                                    {"finish_reason", std::move(reason)}}});
    if (shows_usage_) json.add("usage", Json());
    return sse_text(json);
  }

  Json call_json(size_t part, size_t index, const ToolCall& call) const {
    return Json::Object{{"id", cat("call_", facts_.id, '_', part, '_', index)},
                        {"type", "function"},
                        {"function", Json::Object{{"name", call.name}, {"arguments", write_json(call.arguments)}}}};
  }

  Json choice_json(size_t index, const AnsweredPart& part) const {
    const std::string text = part.text(), thinking = part.thinking();
    const bool only_calls = text.empty() && part.calls > 0;
    Json message = Json::Object{{"role", "assistant"}, {"content", only_calls ? Json() : Json(text)}, {"refusal", {}}};
    if (!thinking.empty()) message.add("reasoning_content", thinking);
    Json::Array calls;
    for (const AnswerPiece& piece : part.pieces)
      if (piece.kind == AnswerPiece::Kind::call) calls.push_back(call_json(index, calls.size(), piece.call));
    if (!calls.empty()) message.add("tool_calls", std::move(calls));
    return Json::Object{{"index", static_cast<int64_t>(index)},
                        {"message", std::move(message)},
                        {"logprobs", shows_log_probs_ ? chat_log_probs(part.log_probs) : Json()},
                        {"finish_reason", finish_reason(part)}};
  }

  bool shows_usage_, shows_log_probs_;
  std::vector<size_t> told_;  // of each part's log-probabilities
};

Checked read_limits(Fields& fields, AnswerRequest& request) {
  TRY(const std::optional<int64_t> old, fields.integer("max_tokens", 1, UINT32_MAX));
  TRY(const std::optional<int64_t> now, fields.integer("max_completion_tokens", 1, UINT32_MAX));
  request.settings.max_tokens = static_cast<uint32_t>(now ? *now : old.value_or(0));
  TRY(const std::optional<int64_t> n, fields.integer("n", 1, kMostParts));
  request.choices = static_cast<uint32_t>(n.value_or(1));
  return Fine{};
}

Checked check_unsupported(Fields& fields) {
  TRY_STATUS(fields.refuse_any({"functions", "function_call"}, "is not supported: want tools"));
  TRY_STATUS(fields.refuse_any({"audio", "web_search_options"}, "is not supported"));
  TRY(const std::vector<std::string> modalities, fields.texts("modalities", 8));
  for (const std::string& one : modalities)
    if (one != "text") return refuse("modalities", "modalities has ", printable(one), ": want text alone");
  return Fine{};
}

// vLLM's pair of fields. Without a generation prompt the model would write the role itself, so that one
// alone is refused.
Checked read_continuation(Fields& fields, AnswerRequest& request) {
  TRY(const std::optional<bool> goes_on, fields.boolean("continue_final_message"));
  TRY(const std::optional<bool> begins, fields.boolean("add_generation_prompt"));
  if (!goes_on.value_or(false)) {
    if (begins.value_or(true)) return Fine{};
    return refuse("add_generation_prompt", "add_generation_prompt is false: want continue_final_message beside it");
  }
  if (begins.value_or(false))
    return refuse("continue_final_message",
                  "continue_final_message beside add_generation_prompt cannot be honoured: want one of them");
  if (request.messages.as_array().back().find("role")->as_string() != "assistant")
    return refuse("continue_final_message", "continue_final_message: want a last message of the assistant");
  const bool has_effort = fields.find("reasoning_effort") != nullptr;
  return take_prefill(request, has_effort ? "reasoning_effort" : "chat_template_kwargs.enable_thinking");
}

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(bool shows_usage, bool shows_log_probs) {
  return std::make_unique<ChatWriter>(shows_usage, shows_log_probs);
}

Outcome<AnswerRequest> read_openai_chat(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request{.variables = Json::Object{}, .settings = first_settings(model)};
  TRY(const std::optional<std::string> name, fields.text("model"));
  request.model = name.value_or(model.id());
  TRY(const Json* messages, fields.array("messages"));
  if (messages == nullptr) return refuse("messages", "messages is missing: want a list of messages");
  if (!model.chats())
    return refuse("messages", "the model ", printable(model.id()), " has no chat template: want /v1/completions");
  TRY(request.messages, openai_messages(*messages, request));
  add_stored_system(request.messages, model);
  TRY_STATUS(read_openai_sampling(fields, model, request.settings));
  TRY_STATUS(take_priority(fields, request));
  TRY_STATUS(read_limits(fields, request));
  TRY_STATUS(take_log_probs(fields, request.settings));
  TRY_STATUS(read_openai_tools(fields, model, request));
  TRY_STATUS(read_effort(fields, "reasoning_effort", model, request));
  TRY_STATUS(read_thought_budget(fields, model, request));
  TRY_STATUS(read_template_variables(fields, request));
  TRY_STATUS(read_openai_form(fields, request));
  TRY_STATUS(read_continuation(fields, request));
  TRY_STATUS(settle_grammar(model, request));
  TRY_STATUS(check_unsupported(fields));
  TRY(const std::optional<bool> stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  TRY(const Json* options, fields.object("stream_options"));
  bool shows_usage = false;
  if (options != nullptr) {
    Fields of_stream(*options, "stream_options.");
    TRY(const std::optional<bool> usage, of_stream.boolean("include_usage"));
    shows_usage = usage.value_or(false);
    for (std::string& unread : of_stream.unread()) request.ignored.push_back(std::move(unread));
  }
  for (std::string& unread : fields.unread()) request.ignored.push_back(std::move(unread));
  request.writer = make_chat_writer(shows_usage, request.settings.log_probs != LogProbs::none);
  return request;
}

}  // namespace sluice

#include "serve/ollama/ollama_writer.h"

#include <cstdio>
#include <ctime>

#include "serve/ollama/ollama.h"
#include "serve/openai/log_probs.h"

namespace sluice {
namespace {

int64_t in_nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

class OllamaWriter final : public AnswerWriter {
 public:
  explicit OllamaWriter(OllamaForm form) : form_(form) {}

  std::string_view stream_type() const override { return "application/x-ndjson"; }
  std::string_view keep_alive() const override { return "\n"; }  // clients skip empty lines

  std::string comment(const std::string& /*line*/) const override { return {}; }

  std::string stream(const AnswerNews& news, const AnsweredPart& part) override {
    std::string text;
    size_t calls = part.calls;
    for (const TurnEvent& event : news.events) calls -= std::holds_alternative<ToolCallEvent>(event) ? 1 : 0;
    for (const TurnEvent& event : news.events) {
      if (const auto* piece = std::get_if<TextEvent>(&event)) text += line(piece->text, "", {}, &part);
      if (const auto* piece = std::get_if<ThinkingEvent>(&event)) text += line("", piece->text, {});
      if (const auto* called = std::get_if<ToolCallEvent>(&event))
        text += line("", "", Json::Array{call_json(called->call, calls++)});
    }
    return text;
  }

  std::string stream_end(const std::vector<AnsweredPart>& parts) override {
    Json last = piece_json("", "", {});
    add_log_probs(last, parts[0]);
    add_end(last, parts);
    return write_json(last) + "\n";
  }

  std::string stream_failure(const Refusal& refusal) override { return write_json(ollama_error(refusal)) + "\n"; }

  Json whole(const std::vector<AnsweredPart>& parts) override {
    const AnsweredPart part = parts.empty() ? AnsweredPart() : parts[0];
    Json::Array calls;
    for (const AnswerPiece& piece : part.pieces)
      if (piece.kind == AnswerPiece::Kind::call) calls.push_back(call_json(piece.call, calls.size()));
    Json reply = piece_json(part.text(), part.thinking(), std::move(calls));
    add_log_probs(reply, part);
    add_end(reply, parts);
    return reply;
  }

 private:
  Json call_json(const ToolCall& call, size_t index) const {
    return Json::Object{
        {"id", cat("call_", facts_.id, '_', index)},
        {"function",
         Json::Object{{"index", static_cast<int64_t>(index)}, {"name", call.name}, {"arguments", call.arguments}}}};
  }

  Json piece_json(const std::string& text, const std::string& thinking, Json::Array calls) const {
    Json json = Json::Object{{"model", facts_.model}, {"created_at", rfc3339(facts_.created, facts_.nanoseconds)}};
    if (form_ == OllamaForm::generate) {
      json.add("response", text);
      if (!thinking.empty()) json.add("thinking", thinking);
      return json;
    }
    Json message = Json::Object{{"role", "assistant"}, {"content", text}};
    if (!thinking.empty()) message.add("thinking", thinking);
    if (!calls.empty()) message.add("tool_calls", std::move(calls));
    json.add("message", std::move(message));
    return json;
  }

  // Those of the tokens that have been shown since the last line that had any.
  void add_log_probs(Json& json, const AnsweredPart& part) {
    const std::span<const TokenLogProb> fresh = std::span(part.log_probs).subspan(told_);
    told_ = part.log_probs.size();
    if (!fresh.empty()) json.add("logprobs", token_log_probs(fresh));
  }

  // `shown`: the part whose text the line shows.
  std::string line(const std::string& text, const std::string& thinking, Json::Array calls,
                   const AnsweredPart* shown = nullptr) {
    Json json = piece_json(text, thinking, std::move(calls));
    if (shown != nullptr) add_log_probs(json, *shown);
    json.add("done", false);
    return write_json(json) + "\n";
  }

  // Without parts the request only asked for the model to be loaded or unloaded.
  void add_end(Json& json, const std::vector<AnsweredPart>& parts) const {
    json.add("done", true);
    if (parts.empty()) return json.add("done_reason", facts_.unloads ? "unload" : "load");
    const Usage& usage = parts[0].done.usage;
    json.add("done_reason", parts[0].done.end == TurnEnd::length ? "length" : "stop");
    json.add("total_duration", in_nanoseconds(usage.prompt_seconds + usage.answer_seconds));
    json.add("load_duration", 0);
    json.add("prompt_eval_count", int64_t{usage.prompt_tokens});
    json.add("prompt_eval_duration", in_nanoseconds(usage.prompt_seconds));
    json.add("eval_count", int64_t{usage.answer_tokens});
    json.add("eval_duration", in_nanoseconds(usage.answer_seconds));
  }

  OllamaForm form_;
  size_t told_ = 0;  // of the log-probabilities
};

}  // namespace

std::unique_ptr<AnswerWriter> make_ollama_writer(OllamaForm form) { return std::make_unique<OllamaWriter>(form); }

std::string rfc3339(int64_t seconds, int64_t nanoseconds) {
  const std::time_t time = seconds;
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char date[32], text[64];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%09lldZ", date, static_cast<long long>(nanoseconds));
  return text;
}

}  // namespace sluice

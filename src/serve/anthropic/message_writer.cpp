#include "serve/anthropic/message_writer.h"

#include <optional>

#include "serve/anthropic/anthropic.h"

namespace sluice {
namespace {

using Kind = AnswerPiece::Kind;

// Tokens that were not computed again do not count as input.
Json usage_json(const Usage& usage) {
  return Json::Object{{"input_tokens", int64_t{usage.prompt_tokens} - usage.reused_tokens},
                      {"cache_creation_input_tokens", 0},
                      {"cache_read_input_tokens", int64_t{usage.reused_tokens}},
                      {"output_tokens", int64_t{usage.answer_tokens}}};
}

class MessageWriter final : public AnswerWriter {
 public:
  explicit MessageWriter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::string_view keep_alive() const override { return "event: ping\ndata: {\"type\": \"ping\"}\n\n"; }

  // Blocks follow one another: each is closed before the next one opens.
  std::string stream(const AnswerNews& news, const AnsweredPart& /*part*/) override {
    std::string text;
    if (!began_) text += begin(news.usage);
    for (const TurnEvent& event : news.events) {
      if (const auto* piece = std::get_if<TextEvent>(&event))
        text += open(Kind::text) + delta(Json::Object{{"type", "text_delta"}, {"text", piece->text}});
      if (const auto* piece = std::get_if<ThinkingEvent>(&event))
        text += open(Kind::thinking) + delta(Json::Object{{"type", "thinking_delta"}, {"thinking", piece->text}});
      if (const auto* called = std::get_if<ToolCallEvent>(&event)) text += call(called->call);
      if (std::holds_alternative<DoneEvent>(event)) text += close();
    }
    return text;
  }

  std::string stream_end(const std::vector<AnsweredPart>& parts) override {
    const AnsweredPart& part = parts[0];
    const Json last = Json::Object{
        {"type", "message_delta"},
        {"delta", Json::Object{{"stop_reason", stop_reason(part)}, {"stop_sequence", stop_sequence(part)}}},
        {"usage", usage_json(part.done.usage)}};
    return sse_text("message_delta", last) + sse_text("message_stop", Json::Object{{"type", "message_stop"}});
  }

  std::string stream_failure(const Refusal& refusal) override {
    return sse_text("error", anthropic_error(refusal, "req_" + facts_.id));
  }

  Json whole(const std::vector<AnsweredPart>& parts) override {
    const AnsweredPart& part = parts[0];
    Json::Array content;
    for (const AnswerPiece& piece : part.pieces)
      if (piece.kind == Kind::call)
        content.push_back(use_json(content.size(), piece.call, piece.call.arguments));
      else if (piece.kind == Kind::text)
        content.emplace_back(Json::Object{{"type", "text"}, {"text", piece.text}});
      else
        content.emplace_back(Json::Object{{"type", "thinking"}, {"thinking", piece.text}, {"signature", ""}});
    return message_json(std::move(content), stop_reason(part), stop_sequence(part), part.done.usage);
  }

 private:
  static const char* stop_reason(const AnsweredPart& part) {
    if (part.done.end == TurnEnd::length) return "max_tokens";
    if (part.done.stop) return "stop_sequence";
    return part.calls > 0 ? "tool_use" : "end_turn";
  }
  Json stop_sequence(const AnsweredPart& part) const { return part.done.stop ? Json(stops_[*part.done.stop]) : Json(); }

  Json message_json(Json content, Json reason, Json stop, const Usage& usage) const {
    return Json::Object{{"id", "msg_" + facts_.id},
                        {"type", "message"},
                        {"role", "assistant"},
                        {"model", facts_.model},
                        {"content", std::move(content)},
                        {"stop_reason", std::move(reason)},
                        {"stop_sequence", std::move(stop)},
                        {"usage", usage_json(usage)}};
  }
  Json use_json(size_t index, const ToolCall& called, Json input) const {
    return Json::Object{{"type", "tool_use"},
                        {"id", cat("toolu_", facts_.id, '_', index)},
                        {"name", called.name},
                        {"input", std::move(input)}};
  }

  std::string begin(Usage usage) {
    began_ = true;
    usage.answer_tokens = 0;
    return sse_text("message_start", Json::Object{{"type", "message_start"},
                                                  {"message", message_json(Json::Array{}, Json(), Json(), usage)}});
  }
  std::string start_block(Json block) {
    return sse_text("content_block_start", Json::Object{{"type", "content_block_start"},
                                                        {"index", static_cast<int64_t>(index_)},
                                                        {"content_block", std::move(block)}});
  }
  std::string open(Kind kind) {
    if (open_ == kind) return {};
    std::string text = close();
    open_ = kind;
    return text +=
           start_block(kind == Kind::text ? Json::Object{{"type", "text"}, {"text", ""}}
                                          : Json::Object{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
  }
  std::string delta(Json delta) const {
    return sse_text("content_block_delta", Json::Object{{"type", "content_block_delta"},
                                                        {"index", static_cast<int64_t>(index_)},
                                                        {"delta", std::move(delta)}});
  }
  std::string close() {
    if (!open_) return {};
    std::string text;
    if (open_ == Kind::thinking) text = delta(Json::Object{{"type", "signature_delta"}, {"signature", ""}});
    text += sse_text("content_block_stop",
                     Json::Object{{"type", "content_block_stop"}, {"index", static_cast<int64_t>(index_)}});
    open_.reset();
    ++index_;
    return text;
  }
  std::string call(const ToolCall& called) {
    std::string text = close();
    open_ = Kind::call;
    text += start_block(use_json(index_, called, Json::Object{}));
    text += delta(Json::Object{{"type", "input_json_delta"}, {"partial_json", write_json(called.arguments)}});
    return text + close();
  }

  std::vector<std::string> stops_;
  bool began_ = false;
  std::optional<Kind> open_;  // the kind of the block that is open
  size_t index_ = 0;          // of the next block, or of the one that is open
};

}  // namespace

std::unique_ptr<AnswerWriter> make_message_writer(std::vector<std::string> stops) {
  return std::make_unique<MessageWriter>(std::move(stops));
}

}  // namespace sluice

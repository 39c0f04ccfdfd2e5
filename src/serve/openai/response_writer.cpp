#include "serve/openai/response_writer.h"

#include <optional>
#include <utility>

#include "serve/openai/log_probs.h"

namespace sluice {
namespace {

using Kind = AnswerPiece::Kind;

// How the API names the items of an answer and their only part. Calls have none.
struct ItemNames {
  const char *prefix, *part, *event;
};
constexpr ItemNames kMessage = {"msg_", "output_text", "response.output_text"};
constexpr ItemNames kThought = {"rs_", "reasoning_text", "response.reasoning_text"};
constexpr ItemNames kCall = {"fc_", "", "response.function_call_arguments"};

const ItemNames& names_of(Kind kind) {
  if (kind == Kind::call) return kCall;
  return kind == Kind::text ? kMessage : kThought;
}

Json usage_json(const Usage& usage) {
  return Json::Object{{"input_tokens", int64_t{usage.prompt_tokens}},
                      {"input_tokens_details",
                       Json::Object{{"cached_tokens", int64_t{usage.reused_tokens}}, {"cache_write_tokens", 0}}},
                      {"output_tokens", int64_t{usage.answer_tokens}},
                      {"output_tokens_details", Json::Object{{"reasoning_tokens", int64_t{usage.thinking_tokens}}}},
                      {"total_tokens", int64_t{usage.prompt_tokens} + usage.answer_tokens}};
}

Json part_json(Kind kind, const std::string& text, std::span<const TokenLogProb> log_probs = {}) {
  Json part = Json::Object{{"type", names_of(kind).part}, {"text", text}};
  if (kind != Kind::text) return part;
  part.add("annotations", Json::Array{});
  part.add("logprobs", token_log_probs(log_probs));
  return part;
}

class ResponseWriter final : public AnswerWriter {
 public:
  explicit ResponseWriter(Json repeated) : repeated_(std::move(repeated)) {}

  std::string stream_begin() override {
    const Json response = response_json("in_progress", Json::Array{});
    return event("response.created", Json::Object{{"response", response}}) +
           event("response.in_progress", Json::Object{{"response", response}});
  }

  // Items follow one another: each is done before the next one is added.
  std::string stream(const AnswerNews& news, const AnsweredPart& part) override {
    std::string text;
    for (const TurnEvent& one : news.events) {
      if (const auto* piece = std::get_if<TextEvent>(&one)) text += add_text(Kind::text, piece->text, part);
      if (const auto* piece = std::get_if<ThinkingEvent>(&one)) text += add_text(Kind::thinking, piece->text, part);
      if (const auto* called = std::get_if<ToolCallEvent>(&one)) text += add_call(called->call, part);
      if (const auto* done = std::get_if<DoneEvent>(&one)) text += close(done->end, part);
    }
    return text;
  }

  std::string stream_end(const std::vector<AnsweredPart>& parts) override {
    const Json response = whole(parts);
    const bool is_cut = parts[0].done.end == TurnEnd::length;
    return event(is_cut ? "response.incomplete" : "response.completed", Json::Object{{"response", response}});
  }

  // A stream that has not begun has no response that could fail.
  std::string stream_failure(const Refusal& refusal) override {
    const bool has_begun = next_event_ > 0;
    std::string error =
        event("error", Json::Object{{"code", refusal.code.empty() ? Json("server_error") : Json(refusal.code)},
                                    {"message", refusal.message},
                                    {"param", refusal.param.empty() ? Json() : Json(refusal.param)}});
    if (!has_begun) return error;
    Json response = response_json("failed", Json::Array{});
    for (auto& [name, value] : response.as_object())
      if (name == "error") value = Json::Object{{"code", "server_error"}, {"message", refusal.message}};
    return error + event("response.failed", Json::Object{{"response", std::move(response)}});
  }

  Json whole(const std::vector<AnsweredPart>& parts) override {
    const AnsweredPart& part = parts[0];
    const bool is_cut = part.done.end == TurnEnd::length;
    Json::Array output;
    for (const AnswerPiece& piece : part.pieces) {
      const bool is_last = &piece == &part.pieces.back();
      const char* status = is_cut && is_last ? "incomplete" : "completed";
      output.push_back(item_json(piece, output.size(), status, part.log_probs_of(output.size())));
    }
    Json response = response_json(is_cut ? "incomplete" : "completed", std::move(output));
    for (auto& [name, value] : response.as_object())
      if (name == "incomplete_details" && is_cut) value = Json::Object{{"reason", "max_output_tokens"}};
    response.add("usage", usage_json(part.done.usage));
    return response;
  }

 private:
  Json response_json(const char* status, Json::Array output) const {
    Json response = Json::Object{{"id", "resp_" + facts_.id},  {"object", "response"},  {"created_at", facts_.created},
                                 {"status", status},           {"background", false},   {"error", {}},
                                 {"incomplete_details", {}},   {"model", facts_.model}, {"output", std::move(output)},
                                 {"previous_response_id", {}}, {"store", false},        {"truncation", "disabled"}};
    for (const auto& [name, value] : repeated_.as_object()) response.add(name, value);
    return response;
  }

  std::string item_id(Kind kind, size_t index) const { return cat(names_of(kind).prefix, facts_.id, '_', index); }

  // `piece`: without its contents while they are to come.
  Json item_json(const AnswerPiece& piece, size_t index, const char* status, std::span<const TokenLogProb> log_probs,
                 bool is_begun = false) const {
    Json item = Json::Object{{"id", item_id(piece.kind, index)}};
    Json::Array parts;
    if (!is_begun && piece.kind != Kind::call) parts.push_back(part_json(piece.kind, piece.text, log_probs));
    switch (piece.kind) {
      case Kind::text:
        item.add("type", "message");
        item.add("role", "assistant");
        item.add("content", std::move(parts));
        break;
      case Kind::thinking:
        item.add("type", "reasoning");
        item.add("summary", Json::Array{});
        item.add("content", std::move(parts));
        break;
      case Kind::call:
        item.add("type", "function_call");
        item.add("call_id", cat("call_", facts_.id, '_', index));
        item.add("name", piece.call.name);
        item.add("arguments", is_begun ? std::string() : write_json(piece.call.arguments));
        break;
    }
    item.add("status", status);
    return item;
  }

  std::string event(const std::string& type, Json::Object members) {
    Json json = Json::Object{{"type", type}, {"sequence_number", next_event_++}};
    for (auto& [name, value] : members) json.add(name, std::move(value));
    return sse_text(type, json);
  }
  // An event of the item that is open. Those of a part name its place.
  std::string item_event(const std::string& type, Json::Object members, bool of_part = true) {
    Json::Object all = {{"item_id", item_id(open_->kind, index_)}, {"output_index", static_cast<int64_t>(index_)}};
    if (of_part) all.emplace_back("content_index", 0);
    all.insert(all.end(), std::make_move_iterator(members.begin()), std::make_move_iterator(members.end()));
    return event(type, std::move(all));
  }
  std::string item_state(const char* type, Json item) {
    return event(type, {{"output_index", static_cast<int64_t>(index_)}, {"item", std::move(item)}});
  }

  // `part`: the open item is its piece of the same index.
  std::string add_text(Kind kind, const std::string& added, const AnsweredPart& part) {
    std::string text;
    if (!open_ || open_->kind != kind) text = close(TurnEnd::stop, part) + open(kind);
    open_->text += added;
    Json::Object members = {{"delta", added}};
    if (kind == Kind::text) {
      const std::span<const TokenLogProb> all = part.log_probs_of(index_);
      members.emplace_back("logprobs", token_log_probs(all.subspan(told_), /*has_bytes=*/false));
      told_ = all.size();
    }
    return text + item_event(cat(names_of(kind).event, ".delta"), std::move(members));
  }

  std::string open(Kind kind) {
    open_ = AnswerPiece{.kind = kind, .text = {}};
    told_ = 0;
    return item_state("response.output_item.added", item_json(*open_, index_, "in_progress", {}, /*is_begun=*/true)) +
           item_event("response.content_part.added", {{"part", part_json(kind, "")}});
  }

  std::string close(TurnEnd end, const AnsweredPart& part) {
    if (!open_) return {};
    const std::span<const TokenLogProb> log_probs = part.log_probs_of(index_);
    Json::Object members = {{"text", open_->text}};
    if (open_->kind == Kind::text) members.emplace_back("logprobs", token_log_probs(log_probs, /*has_bytes=*/false));
    std::string text = item_event(cat(names_of(open_->kind).event, ".done"), std::move(members));
    text += item_event("response.content_part.done", {{"part", part_json(open_->kind, open_->text, log_probs)}});
    return text + end_item(end == TurnEnd::length ? "incomplete" : "completed", log_probs);
  }

  std::string add_call(const ToolCall& call, const AnsweredPart& part) {
    std::string text = close(TurnEnd::stop, part);
    open_ = AnswerPiece{.kind = Kind::call, .text = {}, .call = call};
    const std::string arguments = write_json(call.arguments);
    text += item_state("response.output_item.added", item_json(*open_, index_, "in_progress", {}, /*is_begun=*/true));
    text += item_event(cat(kCall.event, ".delta"), {{"delta", arguments}}, /*of_part=*/false);
    text += item_event(cat(kCall.event, ".done"), {{"name", call.name}, {"arguments", arguments}}, /*of_part=*/false);
    return text + end_item("completed", {});
  }

  std::string end_item(const char* status, std::span<const TokenLogProb> log_probs) {
    std::string text = item_state("response.output_item.done", item_json(*open_, index_, status, log_probs));
    open_.reset();
    ++index_;
    return text;
  }

  Json repeated_;
  int64_t next_event_ = 0;
  std::optional<AnswerPiece> open_;  // the item whose contents come
  size_t index_ = 0;                 // of the next item, or of the one that is open
  size_t told_ = 0;                  // of the log-probabilities of the item that is open
};

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(Json repeated) {
  return std::make_unique<ResponseWriter>(std::move(repeated));
}

}  // namespace sluice

// Legacy completions: text or ids that the model goes on with, without a chat template.
#include <algorithm>
#include <span>

#include "serve/form_fields.h"
#include "serve/openai/log_probs.h"
#include "serve/openai/openai.h"
#include "serve/sampling_fields.h"
#include "serve/tool_fields.h"

namespace sluice {
namespace {

constexpr int64_t kUsualTokens = 16;  // OpenAI's default

const char* finish_reason(const AnsweredPart& part) { return part.done.end == TurnEnd::length ? "length" : "stop"; }

class CompletionWriter final : public AnswerWriter {
 public:
  CompletionWriter(bool shows_usage, bool shows_log_probs)
      : shows_usage_(shows_usage), shows_log_probs_(shows_log_probs) {}

  // A model that was trained to think may do so here, too; what it thinks is text like the rest.
  std::string stream(const AnswerNews& news, const AnsweredPart& part) override {
    std::string text;
    for (const TurnEvent& event : news.events) {
      if (const auto* piece = std::get_if<TextEvent>(&event)) text += chunk(news.part, part, piece->text, {});
      if (const auto* piece = std::get_if<ThinkingEvent>(&event)) text += chunk(news.part, part, piece->text, {});
      if (std::holds_alternative<DoneEvent>(event)) text += chunk(news.part, part, "", finish_reason(part));
    }
    return text;
  }

  std::string stream_end(const std::vector<AnsweredPart>& parts) override {
    std::string text;
    if (shows_usage_) {
      Json last = head_json(Json::Array{});
      last.add("usage", openai_usage(total_usage(parts, facts_.choices)));
      text = sse_text(last);
    }
    return text + "data: [DONE]\n\n";
  }

  std::string stream_failure(const Refusal& refusal) override { return sse_text(openai_error(refusal)); }

  Json whole(const std::vector<AnsweredPart>& parts) override {
    Json::Array choices;
    choices.reserve(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string text;
      for (const AnswerPiece& piece : parts[i].pieces) text += piece.text;
      Json log_probs = shows_log_probs_ ? completion_log_probs(parts[i].log_probs, 0) : Json();
      choices.push_back(choice_json(i, text, finish_reason(parts[i]), std::move(log_probs)));
    }
    Json reply = head_json(std::move(choices));
    reply.add("usage", openai_usage(total_usage(parts, facts_.choices)));
    return reply;
  }

 private:
  Json head_json(Json choices) const {
    return Json::Object{{"id", "cmpl-" + facts_.id},
                        {"object", "text_completion"},
                        {"created", facts_.created},
                        {"model", facts_.model},
                        {"system_fingerprint", facts_.system_fingerprint},
                        {"choices", std::move(choices)}};
  }
  static Json choice_json(size_t part, const std::string& text, Json reason, Json log_probs) {
    return Json::Object{{"text", text},
                        {"index", static_cast<int64_t>(part)},
                        {"logprobs", std::move(log_probs)},
                        {"finish_reason", std::move(reason)}};
  }
  // With the log-probabilities that the last chunk had not yet.
  std::string chunk(size_t index, const AnsweredPart& part, const std::string& text, Json reason) {
    told_.resize(std::max(told_.size(), index + 1));
    Told& told = told_[index];
    const std::span<const TokenLogProb> fresh = std::span(part.log_probs).subspan(told.tokens);
    Json log_probs = shows_log_probs_ && !fresh.empty() ? completion_log_probs(fresh, told.bytes) : Json();
    told.tokens = part.log_probs.size();
    for (const TokenLogProb& one : fresh) told.bytes += one.bytes.size();
    Json json = head_json(Json::Array{choice_json(index, text, std::move(reason), std::move(log_probs))});
    if (shows_usage_) json.add("usage", Json());
    return sse_text(json);
  }

  struct Told {
    size_t tokens = 0, bytes = 0;
  };
  bool shows_usage_, shows_log_probs_;
  std::vector<Told> told_;  // of each part's log-probabilities
};

bool are_ids(const Json& list) {
  if (!list.is_array() || list.as_array().empty()) return false;
  for (const Json& one : list.as_array())
    if (!one.is_integer() || one.as_integer() < 0 || one.as_integer() > INT32_MAX) return false;
  return true;
}

std::vector<int32_t> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  ids.reserve(list.as_array().size());
  for (const Json& one : list.as_array()) ids.push_back(static_cast<int32_t>(one.as_integer()));
  return ids;
}

// A string, a list of strings, ids, or a list of lists of ids.
Outcome<std::vector<PlainPrompt>> read_prompts(Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return refuse("prompt", "prompt is missing: want some text");
  if (prompt->is_string()) return std::vector<PlainPrompt>{prompt->as_string()};
  if (are_ids(*prompt)) return std::vector<PlainPrompt>{ids_of(*prompt)};
  std::vector<PlainPrompt> prompts;
  const bool fits = prompt->is_array() && !prompt->as_array().empty() && prompt->as_array().size() <= kMostParts;
  if (!fits) return fields.wrong("prompt", *prompt, cat("text, ids, or a list of 1 to ", kMostParts, " of them"));
  for (const Json& one : prompt->as_array())
    if (one.is_string())
      prompts.emplace_back(one.as_string());
    else if (are_ids(one))
      prompts.emplace_back(ids_of(one));
    else
      return fields.wrong("prompt", one, "text or ids");
  return prompts;
}

}  // namespace

Outcome<AnswerRequest> read_openai_completion(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request{.settings = first_settings(model)};
  TRY(const std::optional<std::string> name, fields.text("model"));
  request.model = name.value_or(model.id());
  TRY(request.plain, read_prompts(fields));
  TRY_STATUS(read_openai_sampling(fields, model, request.settings));
  TRY_STATUS(take_priority(fields, request));
  TRY(const std::optional<int64_t> most, fields.integer("max_tokens", 1, UINT32_MAX));
  request.settings.max_tokens = static_cast<uint32_t>(most.value_or(kUsualTokens));
  TRY(const std::optional<int64_t> n, fields.integer("n", 1, kMostParts));
  request.choices = static_cast<uint32_t>(n.value_or(1));
  TRY(const std::optional<int64_t> best_of, fields.integer("best_of", 1, kMostParts));
  if (best_of && *best_of != request.choices)
    return refuse("best_of", "best_of is ", *best_of, ": want n, since answers are not ranked");
  if (request.plain.size() * request.choices > kMostParts)
    return refuse("n", "n times the prompts is ", request.plain.size() * request.choices, ": want at most ",
                  kMostParts);
  TRY_STATUS(fields.refuse_any({"echo", "suffix"}, "is not supported"));
  TRY(const std::optional<int64_t> log_probs, fields.integer("logprobs", 0, kCandidates));
  if (log_probs) request.settings.log_probs = LogProbs::text;
  request.settings.sampling.candidates = static_cast<uint32_t>(log_probs.value_or(0));
  TRY_STATUS(read_openai_form(fields, request));
  TRY_STATUS(settle_grammar(model, request));
  TRY(const std::optional<bool> stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  TRY(const Json* options, fields.object("stream_options"));
  const Json* usage = options == nullptr ? nullptr : options->find("include_usage");
  for (std::string& unread : fields.unread()) request.ignored.push_back(std::move(unread));
  request.writer = std::make_unique<CompletionWriter>(usage != nullptr && usage->is_bool() && usage->as_bool(),
                                                      log_probs.has_value());
  return request;
}

}  // namespace sluice

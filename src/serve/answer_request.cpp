#include "serve/answer_request.h"

#include <algorithm>

#include "serve/result_media.h"

namespace sluice {
namespace {

bool is_opening(const Json& message) {
  const Json* role = message.find("role");
  return role != nullptr && role->is_string() && role->as_string() == "system";
}

// The ids that a conversation shares with others that have the same system messages and tools: from there on they
// reuse what was computed.
std::vector<uint32_t> opening_end(const AnswerRequest& request, const Json& messages, const ServedModel& model,
                                  const ChatPrompt& prompt) {
  Json::Array opening;
  for (const Json& message : messages.as_array()) {
    if (!is_opening(message)) break;
    opening.push_back(message);
  }
  if (opening.empty() && request.variables.find("tools") == nullptr) return {};
  if (opening.size() == messages.as_array().size()) return {};
  opening.emplace_back(Json::Object{{"role", "user"}, {"content", "?"}});
  const Result<ChatPrompt> other = render_chat(*model.text, std::move(opening), request.variables);
  if (!other) return {};
  const auto end = std::mismatch(prompt.ids.begin(), prompt.ids.end(), other->ids.begin(), other->ids.end()).first;
  return {static_cast<uint32_t>(end - prompt.ids.begin())};
}

Outcome<ChatPrompt> plain_prompt(const PlainPrompt& plain, const ServedModel& model) {
  ChatPrompt prompt;
  if (const auto* text = std::get_if<std::string>(&plain)) {
    prompt.text = *text;
    prompt.ids = model.text->tokenizer.encode(*text, {.add_special = true});
  } else {
    prompt.ids = std::get<std::vector<int32_t>>(plain);
    for (const int32_t id : prompt.ids)
      if (id < 0 || id >= model.text->tokenizer.size())
        return refuse("prompt", "prompt: token ", id, ": want one from 0 to ", model.text->tokenizer.size() - 1);
    prompt.text = model.text->tokenizer.decode(prompt.ids);
  }
  if (prompt.ids.empty()) return refuse("prompt", "the prompt is empty: want some text");
  return prompt;
}

// The tokens that are left for the answer, if the request has a bound of its own.
Checked check_room(AnswerJob& job, uint32_t bound, const ServedModel& model) {
  const uint32_t context = bound == 0 ? model.context : bound;
  const size_t tokens = job.prompt.ids.size();
  if (tokens < context) {
    const auto left = static_cast<uint32_t>(context - tokens);
    if (bound != 0 && (job.settings.max_tokens == 0 || job.settings.max_tokens > left)) job.settings.max_tokens = left;
    return Fine{};
  }
  return Refusal{.status = 400,
                 .message = cat("the prompt has ", tokens, " tokens: want less than the context of ", context,
                                " tokens, since nothing is cut"),
                 .param = "messages",
                 .code = "context_length_exceeded"};
}

}  // namespace

Outcome<std::vector<AnswerJob>> prepare(const AnswerRequest& request, const ServedModel& model, RemoteMedia remote) {
  std::vector<AnswerJob> prompts;
  if (request.messages.is_null()) {
    for (const PlainPrompt& plain : request.plain) {
      TRY(ChatPrompt prompt, plain_prompt(plain, model));
      prompts.push_back({.prompt = std::move(prompt), .settings = request.settings});
    }
  } else {
    TRY(Json messages, guard_messages(*model.text, place_result_media(request.messages, model)));
    TRY(std::vector<PreparedMedia> media, prepare_all(request.media, model, *request.lease, remote));
    TRY(ChatPrompt prompt, render_chat(*model.text, messages, request.variables, std::move(media)));
    if (!request.prefill.empty() && starts_thinking(*model.text->dialect, prompt.text))
      return refuse("messages",
                    "the model's chat template begins every answer with a thought: the answer cannot go on ",
                    "from a last message of the assistant");
    // Ids of the prefill follow those of the prompt, so guarded text stays as it was encoded.
    prompt.text += request.prefill;
    const std::vector<int32_t> begun = model.text->tokenizer.encode(request.prefill);
    prompt.ids.insert(prompt.ids.end(), begun.begin(), begun.end());
    AnswerJob job{.prompt = std::move(prompt), .settings = request.settings, .lease = request.lease};
    job.message_ends = opening_end(request, messages, model, job.prompt);
    prompts.push_back(std::move(job));
  }
  std::vector<AnswerJob> jobs;
  jobs.reserve(prompts.size() * request.choices);
  for (AnswerJob& prompt : prompts) {
    TRY_STATUS(check_room(prompt, request.context, model));
    for (uint32_t choice = 0; choice < request.choices; ++choice) {
      jobs.push_back(prompt);
      jobs.back().settings.choice = choice;
    }
  }
  return jobs;
}

}  // namespace sluice

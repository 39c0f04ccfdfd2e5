#include "serve/ollama/ollama.h"

#include <algorithm>

#include "serve/fields.h"
#include "serve/form_fields.h"
#include "serve/ollama/ollama_writer.h"
#include "serve/openai/messages.h"
#include "serve/prefill.h"
#include "serve/sampling_fields.h"
#include "serve/tool_fields.h"

namespace sluice {
namespace {

Checked read_options(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  TRY(const Json* given, fields.object("options"));
  if (given == nullptr) return Fine{};
  Fields options(*given, "options.");
  SamplingSettings& sampling = request.settings.sampling;
  TRY_STATUS(take_number(options, "temperature", 0, 100, sampling.temperature));
  TRY_STATUS(take_number(options, "top_p", 0, 1, sampling.top_p));
  TRY_STATUS(take_number(options, "min_p", 0, 1, sampling.min_p));
  TRY_STATUS(take_number(options, "repeat_penalty", 0.01, 100, sampling.repeat_penalty));
  TRY_STATUS(take_number(options, "presence_penalty", -100, 100, sampling.presence_penalty));
  TRY_STATUS(take_number(options, "frequency_penalty", -100, 100, sampling.frequency_penalty));
  TRY(const std::optional<int64_t> top_k, options.integer("top_k", -1, 1 << 30));
  if (top_k) sampling.top_k = static_cast<uint32_t>(std::max<int64_t>(*top_k, 0));
  TRY(const std::optional<int64_t> window, options.integer("repeat_last_n", -1, kMaxPenaltyWindow));
  if (window) sampling.penalty_window = *window < 0 ? kMaxPenaltyWindow : static_cast<uint32_t>(*window);
  TRY(const std::optional<int64_t> seed, options.integer("seed", INT64_MIN, INT64_MAX));
  if (seed) sampling.seed = static_cast<uint64_t>(*seed);
  TRY(const std::optional<int64_t> most, options.integer("num_predict", -2, UINT32_MAX));
  if (most) request.settings.max_tokens = static_cast<uint32_t>(std::max<int64_t>(*most, 0));
  TRY(const std::optional<int64_t> context, options.integer("num_ctx", 1, UINT32_MAX));
  if (context && *context <= model.context) request.context = static_cast<uint32_t>(*context);
  if (context && *context > model.context) request.ignored.emplace_back("options.num_ctx");
  TRY_STATUS(take_stops(options, "stop", request.settings));
  for (std::string& unread : options.unread()) request.ignored.push_back(std::move(unread));
  return Fine{};
}

Checked read_think(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  const Json* think = fields.find("think");
  if (think == nullptr) return Fine{};
  if (!think->is_bool() && !think->is_string()) return fields.wrong("think", *think, "true, false or a level");
  const bool wanted = think->is_string() || think->as_bool();
  if (wanted && !model.thinks()) return refuse("think", '"', printable(model.id()), "\" does not support thinking");
  request.variables.add("enable_thinking", wanted);
  if (think->is_string()) request.variables.add("reasoning_effort", *think);
  return Fine{};
}

// What both requests have.
Checked read_common(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  TRY(const std::optional<std::string> name, fields.text("model"));
  if (!name) return refuse("model", "model is missing: want a name");
  request.model = *name;
  TRY_STATUS(read_options(fields, model, request));
  TRY_STATUS(read_think(fields, model, request));
  TRY_STATUS(read_ollama_form(fields, request));
  TRY_STATUS(take_log_probs(fields, request.settings));
  TRY(const std::optional<bool> stream, fields.boolean("stream"));
  request.stream = stream.value_or(true);
  TRY(request.keep_alive, read_keep_alive(fields.find("keep_alive")));
  return Fine{};
}

// Text with the pictures before it, as parts of OpenAI's. Their places go to `places`.
Outcome<Json> with_images(const Json* images, Json text, const std::string& where, std::vector<std::string>& places) {
  if (images == nullptr || images->is_null()) return text;
  if (!images->is_array()) return refuse(where, where, " is no list: want pictures in base64");
  if (images->as_array().empty()) return text;
  Json::Array parts;
  for (const Json& image : images->as_array()) {
    if (!image.is_string()) return refuse(where, where, ": a picture is no text: want base64");
    places.push_back(cat(where, '[', parts.size(), ']'));
    parts.emplace_back(Json::Object{{"type", "image_url"}, {"image_url", "data:;base64," + image.as_string()}});
  }
  if (text.is_string()) parts.emplace_back(Json::Object{{"type", "text"}, {"text", std::move(text)}});
  return Json(std::move(parts));
}

// Ollama's messages differ from OpenAI's in names, in pictures and in arguments, which are objects.
Outcome<Json> openai_form(const Json& messages, std::vector<std::string>& places) {
  Json::Array out;
  for (size_t i = 0; i < messages.as_array().size(); ++i) {
    const Json& message = messages.as_array()[i];
    if (!message.is_object())
      return refuse("messages", "messages[", i, "] is no object: want {\"role\": ..., \"content\": ...}");
    Json one = Json::Object{};
    for (const auto& [name, value] : message.as_object())
      if (name != "images" && name != "content")
        one.add(name == "thinking" ? "reasoning_content" : name == "tool_name" ? "name" : name, value);
    const Json* content = message.find("content");
    TRY(Json shown, with_images(message.find("images"), content == nullptr ? Json("") : *content,
                                cat("messages[", i, "].images"), places));
    one.add("content", std::move(shown));
    out.push_back(std::move(one));
  }
  return Json(std::move(out));
}

Json::Array capabilities(const ModelCard& model) {
  Json::Array list = {"completion"};
  if (model.calls_tools()) list.emplace_back("tools");
  if (model.thinks()) list.emplace_back("thinking");
  if (model.has_vision) list.emplace_back("vision");
  if (model.has_audio) list.emplace_back("audio");
  return list;
}

Json details(const ModelCard& model) {
  const std::string& family = model.facts.family;
  return Json::Object{{"parent_model", ""},
                      {"format", model.file_kind},
                      {"family", family},
                      {"families", Json::Array{family}},
                      {"parameter_size", model.facts.size_label},
                      {"quantization_level", model.weights}};
}

Json model_json(const ModelCard& model) {
  return Json::Object{{"name", model.id()},
                      {"model", model.id()},
                      {"modified_at", rfc3339(model.created, 0)},
                      {"size", static_cast<int64_t>(model.bytes)},
                      {"digest", ""},
                      {"details", details(model)}};
}

}  // namespace

Outcome<AnswerRequest> read_ollama_chat(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request{.variables = Json::Object{}, .settings = first_settings(model)};
  TRY_STATUS(read_common(fields, model, request));
  TRY(const Json* messages, fields.array("messages"));
  if (!model.chats()) return refuse("messages", '"', printable(model.id()), "\" does not support chat");
  TRY(const Json* tools, fields.array("tools"));
  if (tools != nullptr && !tools->as_array().empty()) {
    if (!model.calls_tools()) return refuse("tools", '"', printable(model.id()), "\" does not support tools");
    TRY(Json checked, checked_tools(*tools));
    TRY_STATUS(take_tools(std::move(checked), ToolChoice{}, model, request));
  }
  if (messages != nullptr && !messages->as_array().empty()) {
    std::vector<std::string> places;
    TRY(const Json form, openai_form(*messages, places));
    TRY(request.messages, openai_messages(form, request, std::move(places)));
    add_stored_system(request.messages, model);
    TRY_STATUS(take_prefill(request, "think"));
  }
  TRY_STATUS(settle_grammar(model, request));
  for (std::string& unread : fields.unread()) request.ignored.push_back(std::move(unread));
  request.writer = make_ollama_writer(OllamaForm::chat);
  return request;
}

Outcome<AnswerRequest> read_ollama_generate(const Json& body, const ServedModel& model) {
  Fields fields(body);
  AnswerRequest request{.variables = Json::Object{}, .settings = first_settings(model)};
  TRY_STATUS(read_common(fields, model, request));
  TRY(const std::optional<std::string> prompt, fields.text("prompt"));
  TRY(const std::optional<std::string> system, fields.text("system"));
  TRY(const std::optional<bool> raw, fields.boolean("raw"));
  TRY_STATUS(settle_grammar(model, request));
  TRY_STATUS(fields.refuse_any({"suffix", "template", "context"}, "is not supported"));
  const Json* images = fields.find("images");
  const bool shows = images != nullptr && images->is_array() && !images->as_array().empty();
  if ((!prompt || prompt->empty()) && !shows) {
    // Nothing to say: the model is loaded.
  } else if (raw.value_or(false) || !model.chats()) {
    if (shows) return refuse("images", "images beside a raw prompt have no place in it: want the chat template");
    request.plain.emplace_back(*prompt);
  } else {
    Json::Array messages;
    if (system) messages.emplace_back(Json::Object{{"role", "system"}, {"content", *system}});
    MediaSink sink{.media = &request.media, .ignored = &request.ignored};
    TRY(const Json parts, with_images(images, prompt.value_or(""), "images", sink.places));
    TRY(Json content, content_of_parts(parts, "images", sink));
    messages.emplace_back(Json::Object{{"role", "user"}, {"content", std::move(content)}});
    request.messages = std::move(messages);
    add_stored_system(request.messages, model);
  }
  for (std::string& unread : fields.unread()) request.ignored.push_back(std::move(unread));
  request.writer = make_ollama_writer(OllamaForm::generate);
  return request;
}

Json ollama_error(const Refusal& refusal) { return Json::Object{{"error", refusal.message}}; }

Json ollama_tag(const ModelCard& model) {
  Json one = model_json(model);
  one.add("capabilities", capabilities(model));
  return one;
}

Json ollama_running(const ModelCard& model, std::optional<std::chrono::system_clock::time_point> end) {
  using std::chrono::nanoseconds, std::chrono::seconds;
  Json one = model_json(model);
  std::string expires = "9999-12-31T23:59:59Z";
  if (end) {
    const auto since = std::chrono::duration_cast<nanoseconds>(end->time_since_epoch());
    const auto whole = std::chrono::duration_cast<seconds>(since);
    expires = rfc3339(whole.count(), (since - whole).count());
  }
  one.add("expires_at", std::move(expires));
  one.add("size_vram", 0);
  one.add("context_length", int64_t{model.context});
  return one;
}

Outcome<std::string> ollama_name(const Json& body) {
  Fields fields(body);
  TRY(std::optional<std::string> name, fields.text("model"));
  TRY(const std::optional<std::string> old_name, fields.text("name"));
  if (!name) name = old_name;
  if (!name) return refuse("model", "model is missing: want a name");
  return *name;
}

Json ollama_show(const ModelCard& model) {
  const std::string& family = model.facts.family;
  return Json::Object{
      {"license", ""},
      {"modelfile", ""},
      {"parameters", ""},
      {"template", model.chat_template},
      {"system", model.system},
      {"details", details(model)},
      {"model_info", Json::Object{{"general.architecture", family},
                                  {"general.parameter_count", static_cast<int64_t>(model.facts.parameters)},
                                  {family + ".context_length", int64_t{model.context}},
                                  {family + ".embedding_length", int64_t{model.facts.hidden}},
                                  {family + ".block_count", int64_t{model.facts.layers}}}},
      {"capabilities", capabilities(model)},
      {"modified_at", rfc3339(model.created, 0)}};
}

}  // namespace sluice

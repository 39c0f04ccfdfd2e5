#include "serve/openai/messages.h"

#include <algorithm>
#include <map>

#include "serve/tool_fields.h"

namespace sluice {
namespace {

constexpr size_t kMostTools = 1024;

class MessageReader {
 public:
  explicit MessageReader(MediaSink sink) : ignored_(sink.ignored), sink_(std::move(sink)) {}

  Outcome<Json> read(const Json& message, size_t index) {
    where_ = cat("messages[", index, "]");
    if (!message.is_object()) return refuse(where_, where_, " is no object: want {\"role\": ..., \"content\": ...}");
    Fields fields(message, where_ + ".");
    TRY(const std::optional<std::string> role, fields.text("role"));
    if (!role) return refuse(where_, where_, " has no role: want system, user, assistant or tool");
    Json out = Json::Object{};
    if (*role == "system" || *role == "developer") {
      TRY_STATUS(add_content(fields, "system", out));
    } else if (*role == "user") {
      TRY_STATUS(add_shown(fields, "user", out));
    } else if (*role == "assistant") {
      TRY_STATUS(add_assistant(fields, out));
    } else if (*role == "tool") {
      TRY_STATUS(add_result(fields, out));
    } else {
      return refuse(where_ + ".role", where_, ".role is ", printable(*role),
                    ": want system, developer, user, assistant or tool");
    }
    for (const std::string& name : fields.unread()) note(name.substr(name.find('.') + 1));
    return out;
  }

 private:
  void note(const std::string& name) {
    const std::string shown = "messages[]." + name;
    if (std::ranges::find(*ignored_, shown) == ignored_->end()) ignored_->push_back(shown);
  }

  Checked add_content(Fields& fields, const char* role, Json& out) {
    const Json* content = fields.find("content");
    if (content == nullptr) return refuse(where_ + ".content", where_, " has no content: want some text");
    TRY(std::string text, text_of_parts(*content, where_ + ".content"));
    out.add("role", role);
    out.add("content", std::move(text));
    return Fine{};
  }

  // Content that may show pictures and sounds.
  Checked add_shown(Fields& fields, const char* role, Json& out) {
    const Json* content = fields.find("content");
    if (content == nullptr) return refuse(where_ + ".content", where_, " has no content: want some text");
    TRY(Json shown, content_of_parts(*content, where_ + ".content", sink_));
    out.add("role", role);
    out.add("content", std::move(shown));
    return Fine{};
  }

  Checked add_assistant(Fields& fields, Json& out) {
    out.add("role", "assistant");
    std::string text;
    const Json* content = fields.find("content");
    if (content != nullptr) TRY_ASSIGN(text, text_of_parts(*content, where_ + ".content"));
    TRY_STATUS(fields.refuse_any({"function_call", "audio"}, "is not supported: want tool_calls"));
    TRY(const Json* calls, fields.array("tool_calls"));
    if (content == nullptr && (calls == nullptr || calls->as_array().empty()) && fields.find("refusal") == nullptr)
      return refuse(where_ + ".content", where_, " has neither content nor tool_calls: want one of them");
    out.add("content", std::move(text));
    TRY(std::optional<std::string> thought, fields.text("reasoning_content"));
    TRY(const std::optional<std::string> other, fields.text("reasoning"));
    if (!thought) thought = other;
    if (thought) out.add("reasoning_content", *thought);
    if (calls == nullptr || calls->as_array().empty()) return Fine{};
    Json::Array list;
    list.reserve(calls->as_array().size());
    for (const Json& call : calls->as_array()) {
      TRY(Json one, read_call(call, cat(where_, ".tool_calls[", list.size(), "]")));
      list.push_back(std::move(one));
    }
    out.add("tool_calls", std::move(list));
    return Fine{};
  }

  Outcome<Json> read_call(const Json& call, const std::string& where) {
    const Json* function = call.find("function");
    const Json* name = function == nullptr ? nullptr : function->find("name");
    if (name == nullptr || !name->is_string())
      return refuse(where, where, " has no function with a name: want {\"function\": {\"name\": ...}}");
    TRY(Json arguments, call_arguments(function->find("arguments"), where + ".function.arguments"));
    const Json* id = call.find("id");
    if (id != nullptr && id->is_string()) names_[id->as_string()] = name->as_string();
    Json one = Json::Object{{"type", "function"}};
    if (id != nullptr) one.add("id", *id);
    one.add("function", Json::Object{{"name", *name}, {"arguments", std::move(arguments)}});
    return one;
  }

  Checked add_result(Fields& fields, Json& out) {
    TRY_STATUS(add_shown(fields, "tool", out));
    TRY(const std::optional<std::string> id, fields.text("tool_call_id"));
    TRY(std::optional<std::string> name, fields.text("name"));
    if (id) {
      out.add("tool_call_id", *id);
      if (const auto found = names_.find(*id); !name && found != names_.end()) name = found->second;
    }
    if (name) out.add("name", *name);
    return Fine{};
  }

  std::vector<std::string>* ignored_;
  MediaSink sink_;
  std::string where_;
  std::map<std::string, std::string> names_;  // of tools, by the ids of their calls
};

std::string_view type_of_part(const Json& part) {
  const Json* type = part.find("type");
  return type != nullptr && type->is_string() ? std::string_view(type->as_string()) : std::string_view();
}

Outcome<std::string_view> text_of_part(const Json& part, const std::string& where, std::string_view want) {
  const std::string_view type = type_of_part(part);
  const bool plain = type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
  const Json* piece = part.find(type == "refusal" ? "refusal" : "text");
  if (plain && piece != nullptr && piece->is_string()) return std::string_view(piece->as_string());
  if (plain) return refuse(where, where, ": a part of type ", type, " has no text: want a string");
  return refuse(where, where, ": a part is of ", type.empty() ? "no type" : cat("type ", printable(type)), ": want ",
                want);
}

}  // namespace

Outcome<std::string> text_of_parts(const Json& content, const std::string& where) {
  if (content.is_string()) return content.as_string();
  if (!content.is_array()) return refuse(where, where, " is no text: want a string or a list of parts");
  std::string text;
  for (const Json& part : content.as_array()) {
    TRY(const std::string_view piece, text_of_part(part, where, "text alone"));
    text += piece;
  }
  return text;
}

Outcome<Json> content_of_parts(const Json& content, const std::string& where, MediaSink& sink) {
  if (!content.is_array()) {
    TRY(std::string text, text_of_parts(content, where));
    return Json(std::move(text));
  }
  ContentBuilder shown;
  size_t index = 0;
  for (const Json& part : content.as_array()) {
    const std::string place = cat(where, '[', index++, ']');
    if (is_media_part(type_of_part(part))) {
      TRY_STATUS(add_openai_media(part, place, sink));
      shown.add(sink.media->back());
    } else {
      TRY(const std::string_view piece, text_of_part(part, where, "text, a picture or a sound"));
      shown.add_text(piece);
    }
  }
  return shown.take();
}

Outcome<Json> call_arguments(const Json* given, const std::string& where) {
  if (given != nullptr && given->is_object()) return *given;
  if (given == nullptr || !given->is_string() || given->as_string().empty()) return Json(Json::Object{});
  Result<Json> parsed = parse_json(given->as_string(), where);
  if (!parsed || !parsed->is_object()) return refuse(where, where, " is no JSON object: want {...}");
  return *std::move(parsed);
}

Outcome<Json> openai_messages(const Json& messages, AnswerRequest& request, std::vector<std::string> places) {
  if (messages.as_array().empty()) return refuse("messages", "messages is empty: want at least one message");
  MessageReader reader({.media = &request.media, .ignored = &request.ignored, .places = std::move(places)});
  Json::Array out;
  out.reserve(messages.as_array().size());
  for (const Json& message : messages.as_array()) {
    TRY(Json one, reader.read(message, out.size()));
    out.push_back(std::move(one));
  }
  return Json(std::move(out));
}

Outcome<Json> checked_tools(const Json& tools) {
  if (tools.as_array().size() > kMostTools)
    return refuse("tools", "tools has ", tools.as_array().size(), " entries: want at most ", kMostTools);
  for (size_t i = 0; i < tools.as_array().size(); ++i) {
    const Json& tool = tools.as_array()[i];
    const std::string where = cat("tools[", i, "]");
    const Json *type = tool.find("type"), *function = tool.find("function");
    if (type != nullptr && (!type->is_string() || type->as_string() != "function"))
      return refuse(where + ".type", where, ".type is ", printable(write_json(*type)), ": want function");
    const Json* name = function == nullptr ? nullptr : function->find("name");
    if (name == nullptr || !name->is_string() || name->as_string().empty())
      return refuse(where, where, " has no function with a name: want {\"function\": {\"name\": ...}}");
    const Json* parameters = function->find("parameters");
    if (parameters != nullptr && !parameters->is_object() && !parameters->is_null())
      return refuse(where, where, ".function.parameters is no object: want a JSON schema");
  }
  return tools;
}

Checked read_openai_tools(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  TRY(const Json* tools, fields.array("tools"));
  TRY(const ToolChoice choice, read_openai_choice(fields));
  TRY(const std::optional<bool> parallel, fields.boolean("parallel_tool_calls"));
  if (parallel && !*parallel) request.settings.max_calls = 1;
  Json checked = Json::Array{};
  if (tools != nullptr) TRY_ASSIGN(checked, checked_tools(*tools));
  return take_tools(std::move(checked), choice, model, request);
}

void add_stored_system(Json& messages, const ServedModel& model) {
  if (model.system.empty()) return;
  Json::Array& list = messages.as_array();
  const Json* role = list.empty() ? nullptr : list.front().find("role");
  if (role != nullptr && role->is_string() && role->as_string() == "system") return;
  list.insert(list.begin(), Json::Object{{"role", "system"}, {"content", model.system}});
}

}  // namespace sluice

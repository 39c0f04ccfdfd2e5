#include "serve/anthropic/blocks.h"

#include <map>

#include "serve/openai/messages.h"

namespace sluice {
namespace {

// A coding agent's first system block, which changes with each request and would keep prompts from being reused.
constexpr std::string_view kBilling = "x-anthropic-billing-header:";

const std::string* text_member(const Json& object, std::string_view name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_string() ? &found->as_string() : nullptr;
}

Outcome<std::string> system_text(const Json& system) {
  if (system.is_string()) return system.as_string();
  if (!system.is_array()) return refuse("system", "system is no text: want a string or a list of text blocks");
  std::string all;
  for (const Json& block : system.as_array()) {
    const std::string *type = text_member(block, "type"), *text = text_member(block, "text");
    if (type == nullptr || *type != "text" || text == nullptr)
      return refuse("system", "system: a block is no text: want {\"type\": \"text\", \"text\": ...}");
    if (starts_with(*text, kBilling)) continue;
    all += cat(all.empty() ? "" : "\n", *text);
  }
  return all;
}

class DialogReader {
 public:
  explicit DialogReader(std::vector<GivenMedia>& media) : media_(&media) {}

  Outcome<Json::Array> read(const Json& messages) {
    for (const Json& message : messages.as_array()) {
      where_ = cat("messages[", index_++, "]");
      const std::string* role = text_member(message, "role");
      const Json* content = message.find("content");
      if (role == nullptr || content == nullptr)
        return refuse(where_, where_, " has no role or no content: want {\"role\": ..., \"content\": ...}");
      if (*role == "assistant") {
        TRY_STATUS(add_assistant(*content));
      } else if (*role == "user") {
        TRY_STATUS(add_user(*content));
      } else if (*role == "system") {
        TRY(std::string text, system_text(*content));
        add("system", std::move(text));
      } else {
        return refuse(where_ + ".role", where_, ".role is ", printable(*role), ": want user or assistant");
      }
    }
    return std::move(out_);
  }

 private:
  void add(const char* role, Json content) {
    out_.emplace_back(Json::Object{{"role", role}, {"content", std::move(content)}});
  }

  Refusal wrong_block(const std::string* type) const {
    return refuse(where_ + ".content", where_, ".content: a block is of type ",
                  type == nullptr ? "none" : printable(*type), ": want text, image, thinking, tool_use or tool_result");
  }

  // `place`: of the block.
  static Outcome<GivenMedia> picture(const Json& block, const std::string& place) {
    const std::string where = place + ".source";
    const Json* source = block.find("source");
    const std::string* type = source == nullptr ? nullptr : text_member(*source, "type");
    const std::string* data = source == nullptr ? nullptr : text_member(*source, "data");
    const std::string* url = source == nullptr ? nullptr : text_member(*source, "url");
    if (type != nullptr && *type == "url" && url != nullptr) return given_picture(*url, where + ".url");
    if (type == nullptr || *type != "base64" || data == nullptr)
      return refuse(where, where, " is no base64 source: want {\"type\": \"base64\", \"media_type\": \"image/png\", ",
                    "\"data\": ...}, since files are not stored");
    return given_media(MediaKind::picture, *data, where + ".data");
  }

  // Text, pictures and results in their order.
  Checked add_user(const Json& content) {
    if (content.is_string()) {
      add("user", content.as_string());
      return Fine{};
    }
    if (!content.is_array()) return wrong_block(nullptr);
    ContentBuilder shown;
    bool any = content.as_array().empty();
    bool after_text = false;
    size_t index = 0;
    for (const Json& block : content.as_array()) {
      const std::string* type = text_member(block, "type");
      if (type != nullptr && *type == "tool_result") {
        if (any) add("user", shown.take());
        any = after_text = false;
        TRY_STATUS(add_result(block, cat(where_, ".content[", index++, "].content")));
        continue;
      }
      if (type != nullptr && *type == "image") {
        TRY(GivenMedia one, picture(block, cat(where_, ".content[", index++, ']')));
        shown.add(one);
        media_->push_back(std::move(one));
        any = true;
        after_text = false;
        continue;
      }
      const std::string* piece = text_member(block, "text");
      if (type == nullptr || *type != "text" || piece == nullptr) return wrong_block(type);
      if (after_text) shown.add_text("\n");
      shown.add_text(*piece);
      any = true;
      after_text = after_text || !piece->empty();
      ++index;
    }
    if (any) add("user", shown.take());
    return Fine{};
  }

  // Text, or blocks of text and pictures.
  Outcome<Json> result_content(const Json& content, const std::string& where) {
    if (!content.is_array()) {
      TRY(std::string text, text_of_parts(content, where));
      return Json(std::move(text));
    }
    ContentBuilder shown;
    for (size_t i = 0; i < content.as_array().size(); ++i) {
      const Json& block = content.as_array()[i];
      const std::string *type = text_member(block, "type"), *text = text_member(block, "text");
      if (type != nullptr && *type == "image") {
        TRY(GivenMedia one, picture(block, cat(where, '[', i, ']')));
        shown.add(one);
        media_->push_back(std::move(one));
      } else if (type != nullptr && *type == "text" && text != nullptr) {
        shown.add_text(*text);
      } else {
        return refuse(where, where, ": a block is of type ", type == nullptr ? "none" : printable(*type),
                      ": want text or image");
      }
    }
    return shown.take();
  }

  Checked add_result(const Json& block, const std::string& where) {
    const std::string* id = text_member(block, "tool_use_id");
    if (id == nullptr) return refuse(where_, where_, ": a tool_result has no tool_use_id");
    Json shown = "";
    if (const Json* content = block.find("content")) TRY_ASSIGN(shown, result_content(*content, where));
    Json message = Json::Object{{"role", "tool"}, {"content", std::move(shown)}, {"tool_call_id", *id}};
    if (const auto found = names_.find(*id); found != names_.end()) message.add("name", found->second);
    out_.push_back(std::move(message));
    return Fine{};
  }

  Checked add_assistant(const Json& content) {
    std::string text, thinking;
    Json::Array calls;
    if (content.is_string()) {
      text = content.as_string();
    } else if (!content.is_array()) {
      return wrong_block(nullptr);
    } else {
      for (const Json& block : content.as_array()) {
        const std::string* type = text_member(block, "type");
        if (type != nullptr && *type == "redacted_thinking") continue;
        const std::string* piece = text_member(block, type != nullptr && *type == "thinking" ? "thinking" : "text");
        if (type != nullptr && *type == "tool_use")
          TRY_STATUS(add_call(block, calls));
        else if (type != nullptr && piece != nullptr && (*type == "text" || *type == "thinking"))
          (*type == "text" ? text : thinking) += *piece;
        else
          return wrong_block(type);
      }
    }
    Json message = Json::Object{{"role", "assistant"}, {"content", std::move(text)}};
    if (!thinking.empty()) message.add("reasoning_content", std::move(thinking));
    if (!calls.empty()) message.add("tool_calls", std::move(calls));
    out_.push_back(std::move(message));
    return Fine{};
  }

  Checked add_call(const Json& block, Json::Array& calls) {
    const std::string *id = text_member(block, "id"), *name = text_member(block, "name");
    const Json* input = block.find("input");
    if (id == nullptr || name == nullptr || (input != nullptr && !input->is_object()))
      return refuse(where_, where_, ": a tool_use has no id, no name or no object as input");
    names_[*id] = *name;
    calls.emplace_back(Json::Object{
        {"type", "function"},
        {"id", *id},
        {"function", Json::Object{{"name", *name}, {"arguments", input == nullptr ? Json(Json::Object{}) : *input}}}});
    return Fine{};
  }

  std::vector<GivenMedia>* media_;
  Json::Array out_;
  std::string where_;
  size_t index_ = 0;
  std::map<std::string, std::string> names_;  // of tools, by the ids of their uses
};

}  // namespace

Checked read_anthropic_dialog(Fields& fields, AnswerRequest& request) {
  TRY(const Json* messages, fields.array("messages"));
  if (messages == nullptr || messages->as_array().empty())
    return refuse("messages", "messages is missing or empty: want at least one message");
  TRY(Json::Array list, DialogReader(request.media).read(*messages));
  if (const Json* system = fields.find("system")) {
    TRY(std::string text, system_text(*system));
    if (!text.empty()) list.insert(list.begin(), Json::Object{{"role", "system"}, {"content", std::move(text)}});
  }
  request.messages = std::move(list);
  return Fine{};
}

Outcome<Json> anthropic_tools(const Json& tools, std::vector<std::string>& ignored) {
  Json::Array list;
  for (size_t i = 0; i < tools.as_array().size(); ++i) {
    const Json& tool = tools.as_array()[i];
    const std::string* type = text_member(tool, "type");
    if (type != nullptr && *type != "custom") {
      ignored.push_back(cat("tools[", i, "] (", printable(*type), ')'));
      continue;
    }
    const std::string* name = text_member(tool, "name");
    if (name == nullptr)
      return refuse("tools", "tools[", i, "] has no name: want {\"name\": ..., \"input_schema\": ...}");
    const Json *description = tool.find("description"), *schema = tool.find("input_schema");
    Json function = Json::Object{{"name", *name}};
    if (description != nullptr && description->is_string()) function.add("description", *description);
    if (schema != nullptr) function.add("parameters", *schema);
    if (const Json* strict = tool.find("strict")) function.add("strict", *strict);
    list.emplace_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  return checked_tools(Json(std::move(list)));
}

}  // namespace sluice

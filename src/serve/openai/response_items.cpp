#include "serve/openai/response_items.h"

#include <algorithm>
#include <map>

#include "serve/fields.h"
#include "serve/openai/messages.h"

namespace sluice {
namespace {

// Calls and outputs of tools that no function declares, from an answer of another server.
constexpr std::string_view kForeignItems[] = {"web_search_call",
                                              "file_search_call",
                                              "computer_call",
                                              "computer_call_output",
                                              "code_interpreter_call",
                                              "image_generation_call",
                                              "local_shell_call",
                                              "local_shell_call_output",
                                              "shell_call",
                                              "shell_call_output",
                                              "apply_patch_call",
                                              "apply_patch_call_output",
                                              "custom_tool_call",
                                              "custom_tool_call_output",
                                              "mcp_list_tools",
                                              "mcp_approval_request",
                                              "mcp_approval_response",
                                              "mcp_call",
                                              "tool_search_call",
                                              "tool_search_output",
                                              "additional_tools",
                                              "compaction"};

class ItemReader {
 public:
  explicit ItemReader(AnswerRequest& request)
      : ignored_(&request.ignored), sink_{.media = &request.media, .ignored = &request.ignored} {}

  Checked read(const Json& item, size_t index) {
    where_ = cat("input[", index, "]");
    if (!item.is_object()) return refuse(where_, where_, " is no object: want {\"type\": ..., ...}");
    Fields fields(item, where_ + ".");
    TRY(const std::optional<std::string> given, fields.text("type"));
    const std::string type = given.value_or(item.find("role") != nullptr ? "message" : "");
    if (type == "message") return add_message(fields);
    if (type == "reasoning") return add_thought(fields);
    if (type == "function_call") return add_call(fields);
    if (type == "function_call_output") return add_output(fields);
    if (std::ranges::find(kForeignItems, type) != std::end(kForeignItems)) {
      ignored_->push_back(cat(where_, " (", type, ')'));
      return Fine{};
    }
    if (type == "item_reference")
      return refuse(where_, where_, " is an item_reference: want the item itself, since responses are not stored");
    return refuse(where_ + ".type", where_, ".type is ", type.empty() ? "missing" : printable(type),
                  ": want message, reasoning, function_call or function_call_output");
  }

  Json::Array take() {
    end_answer();
    return std::move(out_);
  }

 private:
  Checked add_message(Fields& fields) {
    TRY(const std::optional<std::string> role, fields.text("role"));
    const Json* content = fields.find("content");
    if (!role || content == nullptr)
      return refuse(where_, where_, " has no role or no content: want {\"role\": ..., \"content\": ...}");
    if (*role == "user") {
      TRY(Json shown, content_of_parts(*content, where_ + ".content", sink_));
      end_answer();
      out_.emplace_back(Json::Object{{"role", "user"}, {"content", std::move(shown)}});
      return Fine{};
    }
    TRY(std::string text, text_of_parts(*content, where_ + ".content"));
    if (*role == "assistant") {
      if (has_text_ || !calls_.empty()) end_answer();
      text_ = std::move(text);
      has_text_ = true;
      return Fine{};
    }
    if (*role != "system" && *role != "developer")
      return refuse(where_ + ".role", where_, ".role is ", printable(*role),
                    ": want system, developer, user or assistant");
    end_answer();
    out_.emplace_back(Json::Object{{"role", "system"}, {"content", std::move(text)}});
    return Fine{};
  }

  // Other servers give a summary, or nothing that can be read.
  Checked add_thought(Fields& fields) {
    if (has_text_ || !calls_.empty() || !thought_.empty()) end_answer();
    for (const char* name : {"content", "summary"}) {
      TRY(const Json* parts, fields.array(name));
      if (parts == nullptr || !thought_.empty()) continue;
      for (const Json& part : parts->as_array()) {
        const Json* text = part.find("text");
        if (text == nullptr || !text->is_string())
          return refuse(fields.path(name), fields.path(name), ": a part has no text: want {\"text\": ...}");
        thought_ += text->as_string();
      }
    }
    if (fields.find("encrypted_content") != nullptr) note("input[].encrypted_content");
    return Fine{};
  }

  Checked add_call(Fields& fields) {
    TRY(const std::optional<std::string> id, fields.text("call_id"));
    TRY(const std::optional<std::string> name, fields.text("name"));
    if (!id || !name) return refuse(where_, where_, " has no call_id or no name: want both");
    TRY(Json arguments, call_arguments(fields.find("arguments"), where_ + ".arguments"));
    names_[*id] = *name;
    calls_.emplace_back(Json::Object{{"type", "function"},
                                     {"id", *id},
                                     {"function", Json::Object{{"name", *name}, {"arguments", std::move(arguments)}}}});
    return Fine{};
  }

  Checked add_output(Fields& fields) {
    TRY(const std::optional<std::string> id, fields.text("call_id"));
    const Json* output = fields.find("output");
    if (!id || output == nullptr) return refuse(where_, where_, " has no call_id or no output: want both");
    TRY(Json shown, content_of_parts(*output, where_ + ".output", sink_));
    end_answer();
    Json message = Json::Object{{"role", "tool"}, {"content", std::move(shown)}, {"tool_call_id", *id}};
    if (const auto found = names_.find(*id); found != names_.end()) message.add("name", found->second);
    out_.push_back(std::move(message));
    return Fine{};
  }

  // Writes the assistant's message that the last items are parts of.
  void end_answer() {
    if (!has_text_ && calls_.empty() && thought_.empty()) return;
    Json message = Json::Object{{"role", "assistant"}, {"content", std::exchange(text_, {})}};
    if (!thought_.empty()) message.add("reasoning_content", std::exchange(thought_, {}));
    if (!calls_.empty()) message.add("tool_calls", std::exchange(calls_, {}));
    has_text_ = false;
    out_.push_back(std::move(message));
  }

  void note(const std::string& name) {
    if (std::ranges::find(*ignored_, name) == ignored_->end()) ignored_->push_back(name);
  }

  std::vector<std::string>* ignored_;
  MediaSink sink_;
  std::string where_;
  Json::Array out_;
  std::string thought_, text_;  // of the assistant's message that is open
  bool has_text_ = false;
  Json::Array calls_;
  std::map<std::string, std::string> names_;  // of tools, by the ids of their calls
};

}  // namespace

Outcome<Json> response_messages(const Json& input, AnswerRequest& request) {
  if (input.is_string()) return Json(Json::Array{Json::Object{{"role", "user"}, {"content", input}}});
  if (!input.is_array() || input.as_array().empty())
    return refuse("input", "input is no text and no list of items: want one of them");
  ItemReader reader(request);
  for (size_t i = 0; i < input.as_array().size(); ++i) TRY_STATUS(reader.read(input.as_array()[i], i));
  return Json(reader.take());
}

Outcome<Json> response_tools(const Json& tools, std::vector<std::string>& ignored) {
  Json::Array list;
  for (size_t i = 0; i < tools.as_array().size(); ++i) {
    const Json& tool = tools.as_array()[i];
    const std::string where = cat("tools[", i, "]");
    const Json* type = tool.find("type");
    if (type == nullptr || !type->is_string()) return refuse(where + ".type", where, " has no type: want function");
    if (type->as_string() != "function") {
      ignored.push_back(cat(where, " (", printable(type->as_string()), ')'));
      continue;
    }
    Json function = Json::Object{};
    for (const char* name : {"name", "description", "parameters", "strict"})
      if (const Json* value = tool.find(name); value != nullptr && !value->is_null()) function.add(name, *value);
    list.emplace_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  return checked_tools(Json(std::move(list)));
}

}  // namespace sluice

#include "serve/result_media.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "model/model.h"

namespace sluice {
namespace {

std::string_view text_member(const Json& object, std::string_view name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_string() ? std::string_view(found->as_string()) : std::string_view();
}

bool is_result(const Json& message) { return text_member(message, "role") == "tool"; }

bool shows_media(const Json& message) {
  const Json* content = message.find("content");
  return content != nullptr && content->is_array();
}

// Whether the template writes the token of such a part that stands in a result.
bool has_place(std::string_view type, const ServedModel& model) {
  const ProgramKind tower = type == "audio" ? ProgramKind::audio : ProgramKind::vision;
  if (!model.takes(tower)) return true;  // it is refused later
  ChatInput probe;
  probe.special_tokens = model.text->special_tokens;
  const Json call = Json::Object{
      {"type", "function"}, {"id", "1"}, {"function", Json::Object{{"name", "f"}, {"arguments", Json::Object{}}}}};
  const Json parts =
      Json::Array{Json::Object{{"type", "text"}, {"text", "?"}}, Json::Object{{"type", std::string(type)}}};
  probe.messages =
      Json::Array{Json::Object{{"role", "user"}, {"content", "?"}},
                  Json::Object{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::Array{call}}},
                  Json::Object{{"role", "tool"}, {"content", parts}, {"tool_call_id", "1"}, {"name", "f"}}};
  const Result<std::string> rendered = model.text->chat->render(probe);
  const int32_t row = model.model->tower_tokens(tower).row;
  return rendered && row >= 0 && rendered->find(model.text->tokenizer.text(row)) != std::string::npos;
}

// Takes what a result shows out of its content, which becomes text.
void take_media(Json& result, Json::Array& media) {
  for (auto& [name, content] : result.as_object()) {
    if (name != "content") continue;
    std::string text;
    for (Json& part : content.as_array())
      if (text_member(part, "type") == "text")
        text += text_member(part, "text");
      else
        media.push_back(std::move(part));
    content = std::move(text);
  }
}

// Puts the media before a message's own content.
void put_media(Json& message, Json::Array media) {
  for (auto& [name, content] : message.as_object()) {
    if (name != "content") continue;
    if (content.is_array())
      std::ranges::move(content.as_array(), std::back_inserter(media));
    else if (content.is_string() && !content.as_string().empty())
      media.emplace_back(Json::Object{{"type", "text"}, {"text", content.as_string()}});
    content = std::exchange(media, {});
  }
}

}  // namespace

Json place_result_media(const Json& messages, const ServedModel& model) {
  bool all_have_places = true;
  for (const Json& message : messages.as_array()) {
    if (!is_result(message) || !shows_media(message)) continue;
    for (const Json& part : message.find("content")->as_array())
      if (const std::string_view type = text_member(part, "type"); type != "text")
        all_have_places = all_have_places && has_place(type, model);
  }
  if (all_have_places) return messages;
  Json::Array out;
  Json::Array media;  // of the results that came last
  const auto end_results = [&] {
    if (media.empty()) return;
    out.emplace_back(Json::Object{{"role", "user"}, {"content", std::exchange(media, {})}});
  };
  for (Json message : messages.as_array()) {
    if (is_result(message)) {
      if (shows_media(message)) take_media(message, media);
    } else if (!media.empty() && text_member(message, "role") == "user") {
      put_media(message, std::exchange(media, {}));
    } else {
      end_results();
    }
    out.push_back(std::move(message));
  }
  end_results();
  return out;
}

}  // namespace sluice

#include "chat/conversation_file.h"

#include <limits>
#include <utility>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "chat/saved_media.h"
#include "engine/sampling_json.h"

namespace sluice {
namespace {

constexpr const char* kMark = "sluice_conversation";
constexpr int64_t kTextVersion = 2, kMediaVersion = 3;  // programs that know no media refuse the latter
constexpr size_t kShownDigits = 12;

std::string state_path(const std::string& path) { return path + ".state"; }

// The checksum that a saved state ends with, in hexadecimal digits.
Result<std::string> state_checksum(const std::string& path) {
  TRY(const auto source, FileSource::open(path));
  ChecksumValue hash{};  // at the end of a saved state (engine/state/save.h)
  if (source->size() < hash.size())
    return error(ErrorKind::corrupt, path, ": is ", source->size(), " bytes: want a saved state");
  TRY_STATUS(source->read_at(source->size() - hash.size(), hash));
  return hex_of(hash);
}

Json message_json(const ChatMessage& message) {
  Json::Object object = {{"role", message.role}, {"content", message.content}};
  if (!message.thinking.empty()) object.emplace_back("thinking", message.thinking);
  if (message.history != 0) object.emplace_back("history", static_cast<int64_t>(message.history));
  if (!message.tool.empty()) object.emplace_back("tool", message.tool);
  Json::Array calls;
  for (const ToolCall& call : message.calls)
    calls.emplace_back(Json::Object{{"name", call.name}, {"arguments", call.arguments}});
  if (!calls.empty()) object.emplace_back("calls", std::move(calls));
  if (!message.media.empty()) object.emplace_back("media", media_json(message.media));
  return object;
}

Json conversation_json(const Conversation& conversation, const Model& model, const std::string& model_name,
                       Json state) {
  const ConversationSettings& settings = conversation.settings();
  Json::Array stops(settings.turn.stops.begin(), settings.turn.stops.end()), messages;
  for (const ChatMessage& message : conversation.messages()) messages.push_back(message_json(message));
  return Json::Object{{kMark, conversation.shows_media() ? kMediaVersion : kTextVersion},
                      {"model", Json::Object{{"name", model_name}, {"digest", model.digest()}}},
                      {"raw", settings.raw},
                      {"system", settings.system},
                      {"think", settings.think ? Json(*settings.think) : Json()},
                      {"max_tokens", int64_t{settings.turn.max_tokens}},
                      {"stop", std::move(stops)},
                      {"sampling", sampling_json(settings.turn.sampling)},
                      {"messages", std::move(messages)},
                      {"state", std::move(state)}};
}

// Members of the file, each of one kind. The first that is missing or of another is kept as the error.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  std::string text(const char* name, bool required = true) {
    const Json* found = member(name, required, &Json::is_string, "a text");
    return found == nullptr ? "" : found->as_string();
  }
  bool flag(const char* name) {
    const Json* found = member(name, true, &Json::is_bool, "true or false");
    return found != nullptr && found->as_bool();
  }
  std::optional<bool> flag_or_null(const char* name) {
    const Json* found = json_->find(name);
    return found != nullptr && found->is_null() ? std::nullopt : std::optional<bool>(flag(name));
  }
  uint32_t count(const char* name, bool required = true) {
    const Json* found = member(name, required, &Json::is_integer, "a whole number");
    const int64_t value = found == nullptr ? 0 : found->as_integer();
    if (value < 0 || value > std::numeric_limits<uint32_t>::max()) {
      fail(name, "a whole number of 32 bits");
      return 0;
    }
    return static_cast<uint32_t>(value);
  }
  const Json* member(const char* name, bool required, bool (Json::*is)() const, const char* want) {
    const Json* found = json_->find(name);
    if ((found == nullptr && required) || (found != nullptr && !(found->*is)())) {
      fail(name, want);
      return nullptr;
    }
    return found;
  }
  void fail(const char* name, const char* want) {
    if (!problem_) problem_ = error(ErrorKind::corrupt, where_, ": ", name, " is missing or wrong: want ", want);
  }
  Status status() const { return problem_ ? Status(*problem_) : Status(); }

 private:
  const Json* json_;
  std::string where_;
  std::optional<Error> problem_;
};

Status read_calls(const Json& list, const std::string& where, std::vector<ToolCall>& calls) {
  for (const Json& json : list.as_array()) {
    Reader reader(json, cat(where, ": call ", calls.size()));
    ToolCall call{.name = reader.text("name"), .arguments = {}};
    const Json* given = reader.member("arguments", true, &Json::is_object, "an object");
    TRY_STATUS(reader.status());
    call.arguments = *given;
    calls.push_back(std::move(call));
  }
  return {};
}

Result<ChatMessage> read_message(const Json& json, const std::string& where) {
  Reader reader(json, where);
  ChatMessage message{.role = reader.text("role"),
                      .content = reader.text("content"),
                      .thinking = reader.text("thinking", /*required=*/false),
                      .history = reader.count("history", /*required=*/false)};
  if (message.role == "tool")
    message.tool = reader.text("tool");
  else if (message.role != "user" && message.role != "assistant" && message.role != "system")
    reader.fail("role", "user, assistant, system or tool");
  const Json* calls = reader.member("calls", false, &Json::is_array, "a list");
  TRY_STATUS(reader.status());
  if (calls != nullptr) TRY_STATUS(read_calls(*calls, where, message.calls));
  return message;
}

struct Stored {
  std::string model_name, digest;
  ConversationSettings settings;
  std::vector<ChatMessage> messages;
  std::string state;                           // checksum of the engine's state; "": none was saved
  std::vector<std::pair<size_t, Json>> media;  // lists of messages, by the message's number
};

Status read_lists(Reader& reader, const std::string& path, Stored& stored) {
  const Json* stops = reader.member("stop", true, &Json::is_array, "a list");
  const Json* messages = reader.member("messages", true, &Json::is_array, "a list");
  TRY_STATUS(reader.status());
  for (const Json& stop : stops->as_array()) {
    if (!stop.is_string())
      return error(ErrorKind::corrupt, path, ": stop is ", printable(write_json(stop)), ": want a text");
    stored.settings.turn.stops.push_back(stop.as_string());
  }
  TRY(stored.messages, read_messages(*messages, path));
  for (size_t i = 0; i < stored.messages.size(); ++i)
    if (const Json* media = messages->as_array()[i].find("media")) stored.media.emplace_back(i, *media);
  return {};
}

// `now` are the settings that the file does not hold.
Result<Stored> read_stored(const std::string& path, uint32_t vocabulary, const ConversationSettings& now) {
  TRY(const std::string text, read_file(path, kMaxDocumentBytes));
  TRY(const Json json, parse_json(text, path));
  const Json* version = json.find(kMark);
  if (version == nullptr || !version->is_integer())
    return error(ErrorKind::invalid, path, ": no conversation: want a file that /save wrote");
  if (version->as_integer() != kTextVersion && version->as_integer() != kMediaVersion) {
    return error(ErrorKind::unsupported, path, ": is of version ", version->as_integer(), ": want ", kTextVersion,
                 " or ", kMediaVersion);
  }
  Stored stored{.model_name = {}, .digest = {}, .settings = now, .messages = {}, .state = {}, .media = {}};
  Reader reader(json, path);
  ConversationSettings& settings = stored.settings;
  settings.raw = reader.flag("raw");
  settings.system = reader.text("system");
  settings.think = reader.flag_or_null("think");
  settings.turn.max_tokens = reader.count("max_tokens");
  settings.turn.stops.clear();
  const Json* model = reader.member("model", true, &Json::is_object, "an object");
  const Json* sampling = reader.member("sampling", true, &Json::is_object, "an object");
  const Json* state = json.find("state");
  stored.state = state != nullptr && state->is_null() ? "" : reader.text("state");
  TRY_STATUS(read_lists(reader, path, stored));
  Reader of_model(*model, path);
  stored.model_name = of_model.text("name");
  stored.digest = of_model.text("digest");
  TRY_STATUS(of_model.status());
  TRY_STATUS(read_sampling(*sampling, path, vocabulary, settings.turn.sampling));
  return stored;
}

// Why what the engine has computed cannot be taken from the file beside `path`; "" when it was, or a note of it.
std::string take_state(Conversation& conversation, const Stored& stored, const std::string& path) {
  std::string note;
  const std::string file = state_path(path);
  const Result<std::string> checksum = state_checksum(file);
  if (!checksum)
    note = checksum.error().text;
  else if (*checksum != stored.state)
    note = cat(file, ": is not the state that was saved with ", path);
  else if (const Status loaded = conversation.load_state(file, &note); !loaded)
    note = loaded.error().text;
  else
    return note;
  conversation.clear();
  return note + ": all is computed again";
}

}  // namespace

Status save_conversation(Conversation& conversation, const Model& model, const std::string& model_name,
                         const std::string& path) {
  for (const ChatMessage& message : conversation.messages()) TRY_STATUS(save_media(message.media, media_folder(path)));
  Json state;
  if (!conversation.messages().empty() && conversation.has_state()) {
    TRY_STATUS(conversation.save_state(state_path(path)));
    TRY(state, state_checksum(state_path(path)));
  }
  const Json json = conversation_json(conversation, model, model_name, std::move(state));
  return write_file(path, write_json(json, {.indent = 2}) + "\n");
}

Status load_conversation(Conversation& conversation, const Model& model, const std::string& path, std::string* note,
                         const MediaPreparer& prepare) {
  note->clear();
  TRY(Stored stored, read_stored(path, model.facts().vocabulary, conversation.settings()));
  if (stored.digest != model.digest()) {
    return error(ErrorKind::invalid, path, ": was saved with ", printable(stored.model_name), ", digest ",
                 printable(stored.digest.substr(0, kShownDigits)), ": want that model (/model NAME)");
  }
  if (stored.settings.raw != conversation.settings().raw) {
    return error(ErrorKind::invalid, path, ": was saved ", stored.settings.raw ? "with" : "without",
                 " --raw: want the chat begun so");
  }
  for (const auto& [number, list] : stored.media) {
    TRY_ASSIGN(stored.messages[number].media,
               load_media(list, media_folder(path), cat(path, ": message ", number), model, prepare));
  }
  if (stored.state.empty())
    conversation.clear();
  else
    *note = take_state(conversation, stored, path);
  conversation.replace(std::move(stored.settings), std::move(stored.messages));
  return {};
}

Result<std::vector<ChatMessage>> read_messages(const Json& list, const std::string& where) {
  std::vector<ChatMessage> messages;
  for (const Json& json : list.as_array()) {
    TRY(ChatMessage message, read_message(json, cat(where, ": message ", messages.size())));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace sluice

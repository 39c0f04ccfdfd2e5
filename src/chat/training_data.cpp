#include "chat/training_data.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "base/unicode.h"

namespace sluice {
namespace {

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

// What a part of a message's content shows; none: text, or what only the template knows.
std::optional<MediaKind> media_kind_of(const Json& part) {
  const Json* type = part.find("type");
  if (type == nullptr || !type->is_string()) return std::nullopt;
  const std::string& name = type->as_string();
  if (name == "image" || name == "image_url" || name == "input_image") return MediaKind::picture;
  if (name == "audio" || name == "audio_url" || name == "input_audio") return MediaKind::sound;
  if (name == "video" || name == "video_url") return MediaKind::film;
  return std::nullopt;
}

// A path or URL: a string, or a member of an object.
std::optional<std::string> named_in(const Json& json) {
  if (json.is_string()) return json.as_string();
  if (!json.is_object()) return std::nullopt;
  for (const char* member : {"url", "path"})
    if (const Json* name = json.find(member); name != nullptr && name->is_string()) return name->as_string();
  const Json* data = json.find("data");  // of input_audio
  if (data != nullptr && data->is_string()) return "data:;base64," + data->as_string();
  return std::nullopt;
}

// What the part names.
std::optional<std::string> named_by(const Json& part) {
  for (const char* member : {"image_url", "image", "input_audio", "audio_url", "audio", "video_url", "video"})
    if (const Json* shown = part.find(member); shown != nullptr) return named_in(*shown);
  return named_in(part);
}

// The lists of a line from which parts that name nothing take what they show.
class ShownLists {
 public:
  explicit ShownLists(const Json* line) : line_(line) {}
  std::optional<std::string> next(MediaKind kind) {
    static constexpr const char* kLists[] = {"images", "audios", "videos"};
    const Json* list = line_ == nullptr ? nullptr : line_->find(kLists[static_cast<size_t>(kind)]);
    size_t& at = taken_.at(static_cast<size_t>(kind));
    if (list == nullptr || !list->is_array() || at >= list->as_array().size()) return std::nullopt;
    return named_in(list->as_array()[at++]);
  }

 private:
  const Json* line_;
  std::array<size_t, 3> taken_{};
};

// Messages as templates take them, and what each of them shows.
struct ShownMessages {
  Json::Array messages;
  std::vector<std::vector<PreparedMedia>> media;
  std::vector<PreparedMedia> of(size_t first, size_t end) const {
    std::vector<PreparedMedia> all;
    for (size_t i = first; i < end; ++i) all.insert(all.end(), media[i].begin(), media[i].end());
    return all;
  }
};

struct Reader {
  const TextParts& parts;
  const TrainingDataOptions& options;

  // Control tokens that are written in a plain text stay text.
  void append(TrainSequence& sequence, std::string_view text, bool is_target, bool is_rendered) const {
    const std::vector<int32_t> ids = parts.tokenizer.encode(text, {.parse_special = is_rendered});
    sequence.tokens.insert(sequence.tokens.end(), ids.begin(), ids.end());
    sequence.is_target.resize(sequence.tokens.size(), is_target || options.all ? 1 : 0);
  }

  // Text in which there are places for `media`, whose rows are nothing to learn.
  Status append_rendered(TrainSequence& sequence, std::string_view text, bool is_target,
                         const std::vector<PreparedMedia>& media) const {
    if (media.empty()) {
      append(sequence, text, is_target, true);
      return {};
    }
    TRY(const std::string expanded, expand_films(std::string(text), media, parts.tokenizer));
    TRY(PlacedMedia placed, place_media(parts.tokenizer.encode(expanded, {.parse_special = true}), media));
    const size_t begin = sequence.tokens.size();
    sequence.tokens.insert(sequence.tokens.end(), placed.ids.begin(), placed.ids.end());
    sequence.is_target.resize(sequence.tokens.size(), is_target || options.all ? 1 : 0);
    for (MediaSpan& span : placed.spans) {
      span.at += static_cast<uint32_t>(begin);
      std::fill_n(sequence.is_target.begin() + span.at, span.rows, uint8_t{0});
      const auto shown =
          std::ranges::find_if(media, [&](const PreparedMedia& one) { return one.input.content == span.content; });
      sequence.media.push_back({.span = span, .input = shown->input});
    }
    return {};
  }

  // Opens what a part shows, and leaves of the part what templates take.
  Status show(Json& part, ShownLists& lists, std::vector<PreparedMedia>& media) const {
    const std::optional<MediaKind> kind = media_kind_of(part);
    if (!kind) return {};
    const char* const name = media_kind_name(*kind);
    if (options.open_media == nullptr)
      return error(ErrorKind::unsupported, "shows a ", name, ": want examples of text alone here");
    std::optional<std::string> named = named_by(part);
    if (!named) named = lists.next(*kind);
    if (!named) return error(ErrorKind::invalid, "shows a ", name, " without its name: want a path or a data: URL");
    TRY(std::vector<PreparedMedia> opened, options.open_media(*kind, *named));
    media.insert(media.end(), std::make_move_iterator(opened.begin()), std::make_move_iterator(opened.end()));
    static constexpr const char* kTypes[] = {"image", "audio", "video"};
    part = Json::Object{{"type", kTypes[static_cast<size_t>(*kind)]}};
    return {};
  }

  Result<ShownMessages> shown(const Json::Array& messages, const Json* line) const {
    ShownMessages all{.messages = messages, .media = std::vector<std::vector<PreparedMedia>>(messages.size())};
    ShownLists lists(line);
    for (size_t i = 0; i < messages.size(); ++i) {
      const Json* content = messages[i].find("content");
      if (content == nullptr || !content->is_array()) continue;
      Json::Array content_parts = content->as_array();
      for (Json& part : content_parts) TRY_STATUS(show(part, lists, all.media[i]));
      Json::Object message = messages[i].as_object();
      for (auto& [key, value] : message)
        if (key == "content") value = content_parts;
      all.messages[i] = std::move(message);
    }
    return all;
  }

  Result<std::string> rendered(const Json::Array& messages, size_t count, const Json* tools, bool asks) const {
    ChatInput input;
    input.messages = Json::Array(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
    input.special_tokens = parts.special_tokens;
    input.add_generation_prompt = asks;
    if (tools != nullptr) input.tools = *tools;
    return parts.chat->render(input);
  }

  // What the model says in its turn `i`, to which `asked` is the prompt. Some templates end a prompt with what they
  // leave out of turns that have been, such as an empty thought; the answer is then what begins with the message's
  // text.
  Result<std::string> answer_to(const std::string& asked, const Json::Array& messages, size_t i,
                                const Json* tools) const {
    TRY(const std::string answered, rendered(messages, i + 1, tools, /*asks=*/false));
    if (starts_with(answered, asked)) return answered.substr(asked.size());
    TRY(const std::string before, rendered(messages, i, tools, /*asks=*/false));
    const Json* content = messages[i].find("content");
    const std::string_view text =
        content != nullptr && content->is_string() ? without_spaces(content->as_string()) : "";
    const size_t at = answered.find(text, before.size());
    if (text.empty() || !starts_with(answered, before) || at == std::string::npos)
      return Error{
          ErrorKind::unsupported,
          "the chat template writes this answer in another way than it asks for one: want a text as its content"};
    return answered.substr(at);
  }

  // One sequence. Where the template writes earlier turns in another way when later ones come, one for each answer,
  // with what was said before it.
  // `line`: has its tools, and lists of what it shows; null: none.
  Result<std::vector<TrainSequence>> conversation(const Json::Array& given, const Json* line) const {
    TRY(const ShownMessages shown_messages, shown(given, line));
    const Json::Array& messages = shown_messages.messages;
    const Json* tools = line == nullptr ? nullptr : line->find("tools");
    std::vector<TrainSequence> all(1);
    std::string done;         // text of the last one
    size_t shown_before = 0;  // messages whose media it has
    for (size_t i = 0; i < messages.size(); ++i) {
      const Json* role = messages[i].find("role");
      if (role == nullptr || !role->is_string()) return Error{ErrorKind::invalid, "a message has no role: want one"};
      if (role->as_string() != "assistant") continue;
      TRY(const std::string asked, rendered(messages, i, tools, /*asks=*/true));
      TRY(const std::string answer, answer_to(asked, messages, i, tools));
      if (!starts_with(asked, done)) {
        all.emplace_back();
        done.clear();
        shown_before = 0;
      }
      TrainSequence& sequence = all.back();
      TRY_STATUS(append_rendered(sequence, std::string_view(asked).substr(done.size()), false,
                                 shown_messages.of(shown_before, i)));
      const size_t begin = sequence.tokens.size();
      TRY_STATUS(append_rendered(sequence, answer, true, shown_messages.of(i, i + 1)));
      shown_before = i + 1;
      if (!options.all) end_answer(sequence, begin);
      done = asked + answer;
    }
    return all;
  }

  // What a template writes behind the token that ends a turn is not the model's to say.
  void end_answer(TrainSequence& sequence, size_t begin) const {
    size_t end = sequence.tokens.size();
    while (end > begin && !parts.tokenizer.is_end(sequence.tokens[end - 1])) --end;
    if (end == begin) return;
    std::fill(sequence.is_target.begin() + static_cast<std::ptrdiff_t>(end), sequence.is_target.end(), uint8_t{0});
  }

  Result<std::vector<TrainSequence>> pair(const Json& prompt, const Json& completion) const {
    if (!prompt.is_string() || !completion.is_string())
      return Error{ErrorKind::invalid, "prompt or completion is no string: want strings"};
    if (parts.chat)
      return conversation({Json::Object{{"role", "user"}, {"content", prompt}},
                           Json::Object{{"role", "assistant"}, {"content", completion}}},
                          nullptr);
    TrainSequence sequence;
    begin_plain(sequence);
    append(sequence, prompt.as_string(), false, false);
    append(sequence, completion.as_string(), true, false);
    end_plain(sequence);
    return std::vector{std::move(sequence)};
  }

  void begin_plain(TrainSequence& sequence) const {
    if (!parts.tokenizer.bos()) return;
    sequence.tokens.push_back(*parts.tokenizer.bos());
    sequence.is_target.push_back(0);
  }
  void end_plain(TrainSequence& sequence) const {
    if (!parts.tokenizer.eos()) return;
    sequence.tokens.push_back(*parts.tokenizer.eos());
    sequence.is_target.push_back(1);
  }

  Result<std::vector<TrainSequence>> example(const Json& line) const {
    if (const Json* messages = line.find("messages"); messages != nullptr) {
      if (!messages->is_array()) return Error{ErrorKind::invalid, "messages is no array: want one"};
      if (!parts.chat) return Error{ErrorKind::invalid, "the model has no chat template: want prompt and completion"};
      return conversation(messages->as_array(), &line);
    }
    const Json *prompt = line.find("prompt"), *completion = line.find("completion");
    if (prompt != nullptr && completion != nullptr) return pair(*prompt, *completion);
    const Json* text = line.find("text");
    if (text == nullptr || !text->is_string())
      return Error{ErrorKind::invalid, "found none of messages, prompt with completion, and text: want one of them"};
    TrainSequence sequence;
    begin_plain(sequence);
    append(sequence, text->as_string(), true, false);
    end_plain(sequence);
    return std::vector{std::move(sequence)};
  }

  // A string is a message of the role.
  static Result<Json::Array> messages_of(const Json& json, const char* role) {
    if (json.is_array()) return json.as_array();
    if (json.is_string()) return Json::Array{Json::Object{{"role", role}, {"content", json}}};
    return Error{ErrorKind::invalid, "a prompt or an answer is neither a string nor messages: want one of both"};
  }

  // The sequence of an answer to what was asked; null: the answer is a whole conversation.
  Result<TrainSequence> answered(const Json* asked, const Json& answer, const Json& line) const {
    TRY(std::vector<TrainSequence> all, sequences_of(asked, answer, line));
    if (all.size() == 1) return std::move(all.front());
    return Error{ErrorKind::unsupported,
                 "the chat template changes earlier messages when later ones come: want one answer in each"};
  }
  Result<std::vector<TrainSequence>> sequences_of(const Json* asked, const Json& answer, const Json& line) const {
    if (!parts.chat) {
      if (asked != nullptr) return pair(*asked, answer);
      return Error{ErrorKind::invalid, "the model has no chat template: want a prompt, chosen and rejected"};
    }
    Json::Array all;
    if (asked != nullptr) TRY_ASSIGN(all, messages_of(*asked, "user"));
    TRY(const Json::Array more, messages_of(answer, "assistant"));
    all.insert(all.end(), more.begin(), more.end());
    return conversation(all, &line);
  }

  Result<std::vector<TrainSequence>> preference(const Json& line) const {
    const Json *chosen = line.find("chosen"), *rejected = line.find("rejected");
    if (chosen == nullptr || rejected == nullptr)
      return Error{ErrorKind::invalid, "has no chosen and rejected answer: want both"};
    const Json* asked = line.find("prompt") != nullptr ? line.find("prompt") : line.find("messages");
    std::vector<TrainSequence> both;
    for (const Json* answer : {chosen, rejected}) {
      TRY(TrainSequence one, answered(asked, *answer, line));
      both.push_back(std::move(one));
    }
    return both;
  }

  // A line without JSON: "question => answer".
  static Result<Json> question_and_answer(std::string_view line) {
    constexpr std::string_view kArrow = "=>";
    const size_t arrow = line.find(kArrow);
    if (arrow == std::string_view::npos)
      return Error{ErrorKind::invalid, "is neither JSON nor a question => answer: want one of both"};
    const std::string_view question = without_spaces(line.substr(0, arrow));
    const std::string_view answer = without_spaces(line.substr(arrow + kArrow.size()));
    if (question.empty() || answer.empty())
      return Error{ErrorKind::invalid, "has no text on one side of =>: want a question and an answer"};
    if (!is_utf8(line)) return Error{ErrorKind::invalid, "is not UTF-8: want text"};
    return Json(Json::Object{{"prompt", question}, {"completion", answer}});
  }

  Result<std::vector<TrainSequence>> read(std::string_view line) const {
    const bool is_json = line.front() == '{' || line.front() == '[';
    TRY(const Json json, is_json || options.pairs ? parse_json(line, "JSON") : question_and_answer(line));
    TRY(std::vector<TrainSequence> sequences, options.pairs ? preference(json) : example(json));
    for (const TrainSequence& one : sequences) {
      if (one.tokens.size() < 2 || one.targets() == 0)
        return Error{ErrorKind::invalid, "has no token to learn: want an answer"};
      if (one.tokens.size() > options.max_tokens)
        return error(ErrorKind::invalid, "has ", one.tokens.size(), " tokens: want at most ", options.max_tokens);
    }
    return sequences;
  }
};

}  // namespace

TrainingData read_training_data(std::string_view text, const TextParts& parts, const TrainingDataOptions& options) {
  const Reader reader{parts, options};
  TrainingData data;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_spaces(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    Result<std::vector<TrainSequence>> read = reader.read(line);
    if (!read) {
      data.faults.push_back(cat("line ", number, ": ", read.error().text));
      continue;
    }
    for (TrainSequence& one : *read) {
      data.examples.push_back(std::move(one));
      data.lines.push_back(number);
    }
  }
  return data;
}

}  // namespace sluice

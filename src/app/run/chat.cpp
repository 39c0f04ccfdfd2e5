#include "app/run/chat.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "app/cli/help.h"
#include "app/cli/interrupt.h"
#include "app/files/media_file.h"
#include "app/open/adapters.h"
#include "app/run/chat_completion.h"
#include "app/run/chat_history.h"
#include "app/run/dropped_paths.h"
#include "app/run/line_editor.h"
#include "app/run/prompt_input.h"
#include "app/run/run_report.h"
#include "app/run/shown_media.h"
#include "app/run/speaker.h"
#include "base/base64.h"
#include "base/files/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "chat/conversation_file.h"

namespace sluice {
namespace {

constexpr const char* kWithNext = ": with the next question";

// What of the media a model has no tower or no tokens for, as a sentence.
Status check_shown(const Model& model, const std::string& name, const std::vector<PreparedMedia>& media) {
  const auto is_taken = [&](const PreparedMedia& one) {
    if (!model.has(one.input.tower)) return false;
    return !one.film || model.tower_tokens(one.input.tower).film_row >= 0;
  };
  std::vector<PreparedMedia> refused;
  for (const PreparedMedia& one : media)
    if (!is_taken(one)) refused.push_back(one);
  if (refused.empty()) return {};
  return error(ErrorKind::unsupported, "/model: ", printable(name), " does not take ", media_names(refused),
               ", which the conversation shows: want /clear first, or a model that does");
}

// Prepares media for another model.
Status show_again(const Model& model, std::vector<PreparedMedia>& media) {
  std::vector<PreparedMedia> shown;
  for (const std::span<const PreparedMedia> one : by_source(media)) {
    TRY(std::vector<PreparedMedia> parts, prepare_source(model, *one.front().source));
    for (PreparedMedia& part : parts) shown.push_back(std::move(part));
  }
  media = std::move(shown);
  return {};
}

class Chat {
 public:
  struct Command {
    const char* name;
    const char* others;    // other names: "/bye|/exit"
    const char* argument;  // what follows it; "": nothing
    const char* help;
    Status (Chat::*run)(const std::string& argument);
  };
  static const std::vector<Command>& commands();

  Chat(std::unique_ptr<RunModel> model, std::unique_ptr<Conversation> conversation, const Budget& budget,
       Console& console, const ChatOptions& options)
      : model_(std::move(model)),
        conversation_(std::move(conversation)),
        budget_(budget),
        console_(console),
        options_(options),
        display_(console, options.thumbnails),
        media_(options.media) {}

  int run();
  const RunModel& left() const { return *model_; }

 private:
  void handle(const PromptLines& typed);
  Status run_command(const std::string& line);
  void answer(const std::string& text);
  bool ask(ChatMessage message);
  void say(const Status& status);
  std::string banner_text() const;
  void say_end(const Reply& reply);
  void say_open_call();
  bool may_write(const std::string& path);
  size_t used_tokens() const;
  WordChoices completion(const std::string& before_cursor) const;
  void keep(const PromptLines& typed);

  Status help(const std::string&);
  Status system(const std::string& text);
  Status result(const std::string& text);
  Status undo(const std::string&);
  Status again(const std::string&);
  Status edit(const std::string&);
  Status read(const std::string& path);
  Status copy(const std::string&);
  Status context(const std::string&);
  Status compact(const std::string&);
  Status clear(const std::string&);
  Status save(const std::string& path);
  Status load(const std::string& path);
  Status model(const std::string& name);
  Status image(const std::string& path);
  Status audio(const std::string& path);
  Status video(const std::string& path);
  Status adapter(const std::string& text);
  Status attach(const std::string& path, MediaKind kind);
  Status drop_adapter(const std::string& name);
  Status use_adapters(AdapterShelf shelf);
  Status go_on_with(std::unique_ptr<RunModel> next, const std::string& name);
  bool attach_dropped(const std::string& line);
  Status stats(const std::string&);
  Status quit(const std::string&);

  std::unique_ptr<RunModel> model_;
  std::unique_ptr<Conversation> conversation_;  // points into the model
  const Budget& budget_;
  Console& console_;
  const ChatOptions options_;
  std::string history_path_ = options_.history_path;
  MediaDisplay display_;
  std::vector<PreparedMedia> media_;  // that the next question shows
  std::string text_;                  // of files, that stands behind the next question
  std::string prefill_;               // that the next line begins with
  std::optional<Reply> last_;
  bool leaving_ = false;
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> table = {
      {"/help", "/?", "", "lists the commands", &Chat::help},
      {"/system", "", "TEXT", "sets the system message and begins anew; without TEXT shows it", &Chat::system},
      {"/regen", "", "", "answers the last question again, with the next seed", &Chat::again},
      {"/result", "", "TEXT", "gives the model what the tool that it called has said; after the last call it goes on",
       &Chat::result},
      {"/edit", "", "", "takes back the last question and puts it at the prompt, to be changed", &Chat::edit},
      {"/undo", "", "",
       "takes back the last question and its answer; its pictures, sounds and films wait for the next question, and "
       "another /undo takes them back one by one",
       &Chat::undo},
      {"/clear", "/new", "", "begins anew", &Chat::clear},
      {"/save", "", "FILE",
       "writes the conversation to FILE, what is computed of it to FILE.state, and the pictures, sounds and films that "
       "it shows to FILE.media",
       &Chat::save},
      {"/load", "", "FILE", "goes on with the conversation of FILE", &Chat::load},
      {"/read", "", "FILE",
       "puts the text of a file behind the next question; @FILE in a question does so where it stands", &Chat::read},
      {"/copy", "", "", "gives the last answer to the terminal's clipboard, where the terminal allows it", &Chat::copy},
      {"/context", "", "", "how much of the context is used", &Chat::context},
      {"/compact", "", "", "makes room: drops the oldest questions and answers, half of what the context holds",
       &Chat::compact},
      {"/model", "", "NAME", "goes on with another model; without NAME shows which it is", &Chat::model},
      {"/image", "", "FILE", "shows a picture with the next question, where <image> stands in it or before it",
       &Chat::image},
      {"/audio", "", "FILE", "lets it hear a sound, likewise with <audio>", &Chat::audio},
      {"/video", "", "FILE", "shows a film, likewise with <video>", &Chat::video},
      {"/adapter", "", "PATH[:SCALE]",
       "adds a LoRA adapter; NAME:SCALE changes its scale, drop NAME takes it back, and nothing lists them",
       &Chat::adapter},
      {"/stats", "", "", "speed and memory of the last answer", &Chat::stats},
      {"/quit", "/bye|/exit", "", "leaves, as Ctrl-D does", &Chat::quit},
  };
  return table;
}

int Chat::run() {
  console_.out(cat(banner_text(), "\n/help lists the commands\n"));
  if (!conversation_->has_template() && !conversation_->settings().raw)
    console_.remark("this model has no chat template: it goes on with your text as it stands");
  display_.show(media_, kWithNext);
  LineEditor editor([this] { return model_->engine().warm_up(); },
                    [this](const std::string& before_cursor) { return completion(before_cursor); });
  for (const std::string& entry : history_path_.empty() ? std::vector<std::string>() : read_history(history_path_))
    editor.remember(entry);
  bool interrupted_before = false;  // the last thing was a Ctrl-C
  while (console_.status().ok() && !leaving_) {
    clear_interrupts();
    PromptLines typed;
    if (!prefill_.empty()) editor.prefill(std::exchange(prefill_, {}));
    switch (editor.read("> ", typed)) {
      case LineEditor::End::closed: console_.out("\n"); return 0;
      case LineEditor::End::interrupted:
        if (interrupted_before) {
          console_.out("\n");
          return 0;
        }
        console_.out("\nCtrl-C again or /quit leaves\n");
        interrupted_before = true;
        continue;
      case LineEditor::End::line: break;
    }
    keep(typed);
    handle(typed);
    interrupted_before = interrupted();
  }
  return 0;
}

// A history that cannot be written is said once.
void Chat::keep(const PromptLines& typed) {
  const Status kept = history_path_.empty() ? Status() : add_to_history(history_path_, typed.text());
  if (!kept) {
    say(error(kept.error().kind, kept.error().text, " (no more lines are kept)"));
    history_path_.clear();
  }
}

void Chat::handle(const PromptLines& typed) {
  const size_t first = typed.text().find_first_not_of(" \t\n");
  if (first == std::string::npos) return;
  if (!typed.quoted() && attach_dropped(typed.text())) return;
  if (typed.quoted() || typed.text()[first] != '/')
    answer(typed.text());
  else
    say(run_command(typed.text().substr(first)));
}

Status Chat::run_command(const std::string& line) {
  const std::string name = line.substr(0, line.find_first_of(" \t"));
  const size_t begin = line.find_first_not_of(" \t", name.size()), end = line.find_last_not_of(" \t");
  const std::string argument = begin == std::string::npos ? "" : line.substr(begin, end + 1 - begin);
  for (const Command& command : commands()) {
    const std::vector<std::string> others = alias_list(command.others);
    if (command.name != name && std::ranges::find(others, name) == others.end()) continue;
    if (command.argument[0] == '\0' && !argument.empty())
      return error(ErrorKind::invalid, name, ": unexpected ", printable(argument), ": want nothing after it");
    return (this->*command.run)(argument);
  }
  std::vector<std::string> names;
  for (const TableRow& row : chat_commands()) names.push_back(row.head.substr(0, row.head.find(' ')));
  return error(ErrorKind::invalid, "no command ", printable(name), did_you_mean(name, names), ": /help lists them");
}

// "demo on AMD EPYC, AVX-512 VNNI, 2 threads, with a context of 8192 tokens"
std::string Chat::banner_text() const {
  return cat(printable(model_->files.name, 200), " on ", options_.device, ", with a context of ",
             model_->engine().context(), " tokens");
}

// Of an answer that ended early, and of a context that is nearly full.
void Chat::say_end(const Reply& reply) {
  const size_t all = model_->engine().context(), used = used_tokens();
  if (const std::string note = cut_note(reply, all); !note.empty()) console_.remark(cat("(", note, ")"));
  if (used * 4 >= all * 3)
    console_.remark(cat("(", used, " of ", all, " tokens of the context are used: /compact makes room)"));
}

WordChoices Chat::completion(const std::string& before_cursor) const {
  CompletionWords words;
  std::map<std::string, std::string> arguments;
  for (const Command& command : commands()) {
    words.commands.emplace_back(command.name);
    arguments[command.name] = command.argument;
  }
  words.takes_file = [&](const std::string& name) { return arguments[name] == "FILE"; };
  words.takes_model = [&](const std::string& name) { return arguments[name] == "NAME"; };
  words.models = options_.models;
  return complete(before_cursor, words);
}

void Chat::say(const Status& status) {
  if (!status) console_.err(cat("sluice: ", status.error().text, '\n'));
}

void Chat::answer(const std::string& text) {
  const Result<std::string> question = with_files(text);
  if (!question) {
    say(question.error());
    return;
  }
  const bool answered =
      ask({.role = "user", .content = text_.empty() ? *question : cat(*question, "\n\n", text_), .media = media_});
  if (!answered) return;
  media_.clear();
  text_.clear();
}

// False: there is no answer, and why was said.
bool Chat::ask(ChatMessage message) {
  Speaker speaker(console_, /*silent=*/false);
  Result<Reply> reply = conversation_->ask(std::move(message), speaker.watch());
  speaker.finish();
  say_notes(options_.states, console_);
  if (!reply) {
    say(reply.error());
    return false;
  }
  say_end(*reply);
  say_open_call();
  last_ = *std::move(reply);
  say(model_->model().checkpoint().check_unchanged());
  if (options_.stats) console_.err(stats_text(*last_, budget_, model_->engine(), model_->model(), model_->foreseen));
  return true;
}

void Chat::say_open_call() {
  if (const ToolCall* call = conversation_->open_call())
    console_.remark(cat("(/result TEXT gives the model the result of ", printable(call->name), ")"));
}

Status Chat::result(const std::string& text) {
  const ToolCall* call = conversation_->open_call();
  if (call == nullptr)
    return error(ErrorKind::invalid, "/result: no call waits for one: want it behind a call of a tool");
  if (text.empty())
    return error(ErrorKind::invalid, "/result: no TEXT: want what ", printable(call->name), " has said");
  ChatMessage result{.role = "tool", .content = text, .tool = call->name};
  if (conversation_->open_calls() == 1) {
    ask(std::move(result));
    return {};
  }
  conversation_->add_result(std::move(result));
  say_open_call();
  return {};
}

Status Chat::help(const std::string&) {
  console_.out(table_text(chat_commands(), console_.columns()));
  console_.out(
      "A line that is only the path of a picture, sound or film shows it with the next question.\n"
      "A line that ends in \\ goes on in the next, Alt-Enter begins one, and \"\"\" begins and ends a prompt of "
      "several\n"
      "lines; pasted lines are one prompt. Tab completes, Ctrl-R searches earlier lines. Ctrl-C stops an answer; "
      "twice,\n"
      "it leaves.\n");
  return {};
}

Status Chat::system(const std::string& text) {
  if (text.empty()) {
    console_.out(conversation_->system().empty() ? "no system message\n" : conversation_->system() + "\n");
    return {};
  }
  if (!conversation_->has_template())
    return error(ErrorKind::invalid, "/system: this model has no chat template, so it takes no system message");
  conversation_->set_system(text);
  conversation_->clear();
  return {};
}

Status Chat::undo(const std::string&) {
  if (!media_.empty()) {
    const size_t last = by_source(media_).back().size();
    console_.out(cat("took back: ", printable(media_.back().label), '\n'));
    media_.erase(media_.end() - static_cast<std::ptrdiff_t>(last), media_.end());
    return {};
  }
  std::optional<ChatMessage> question = conversation_->undo();
  if (!question) {
    console_.out("nothing to take back\n");
    return {};
  }
  console_.out(cat("took back: ", printable(question->content), '\n'));
  media_ = std::move(question->media);
  if (!media_.empty()) console_.out(cat(media_names(media_), kWithNext, '\n'));
  return {};
}

// The next seed, since the same one would give the same answer.
Status Chat::again(const std::string&) {
  std::optional<ChatMessage> question = conversation_->undo();
  if (!question) return error(ErrorKind::invalid, "/regen: there is no question yet: want one first");
  ConversationSettings settings = conversation_->settings();
  ++settings.turn.sampling.seed;
  if (settings.turn.sampling.temperature == 0) console_.remark("the likeliest tokens are taken: the same answer again");
  std::vector<ChatMessage> messages = conversation_->messages();
  conversation_->replace(std::move(settings), std::move(messages));
  media_ = std::move(question->media);
  answer(question->content);
  return {};
}

Status Chat::edit(const std::string&) {
  std::optional<ChatMessage> question = conversation_->undo();
  if (!question) return error(ErrorKind::invalid, "/edit: there is no question yet: want one first");
  prefill_ = std::move(question->content);
  media_ = std::move(question->media);
  return {};
}

Status Chat::read(const std::string& path) {
  if (path.empty()) return error(ErrorKind::invalid, "/read: no FILE: want a text file's name");
  TRY(const std::string text, read_text_file(expand_home(path)));
  text_ += cat(text_.empty() ? "" : "\n\n", text);
  console_.out(cat(printable(file_name(path)), ", ", format_bytes(text.size()), kWithNext, '\n'));
  return {};
}

// OSC 52 of xterm: the terminal takes base64.
Status Chat::copy(const std::string&) {
  if (!last_) return error(ErrorKind::invalid, "/copy: there is no answer yet: want one first");
  console_.out(cat("\x1b]52;c;", encode_base64(last_->answer), "\x07"));
  console_.remark(cat("gave ", format_bytes(last_->answer.size()), " to the terminal"));
  return {};
}

size_t Chat::used_tokens() const {
  const Result<History> history = conversation_->history();
  return history ? history->size() : 0;
}

Status Chat::context(const std::string&) {
  const size_t used = used_tokens(), all = model_->engine().context();
  console_.out(cat(used, " of ", all, " tokens used, ", conversation_->messages().size(), " messages\n"));
  return {};
}

Status Chat::compact(const std::string&) {
  const size_t before = used_tokens();
  const size_t dropped = conversation_->drop_oldest(before / 2);
  if (dropped == 0) {
    console_.out("nothing to drop: the last question and its answer stay\n");
    return {};
  }
  console_.out(cat("dropped the oldest ", dropped, " messages; ", conversation_->messages().size(), " stay\n"));
  return {};
}

Status Chat::clear(const std::string&) {
  conversation_->clear();
  text_.clear();
  media_.clear();
  return {};
}

Status Chat::image(const std::string& path) {
  if (path.empty()) return error(ErrorKind::invalid, "/image: no FILE: want a picture's name");
  return attach(path, MediaKind::picture);
}

Status Chat::audio(const std::string& path) {
  if (path.empty()) return error(ErrorKind::invalid, "/audio: no FILE: want a sound's name");
  return attach(path, MediaKind::sound);
}

Status Chat::video(const std::string& path) {
  if (path.empty()) return error(ErrorKind::invalid, "/video: no FILE: want a film's name");
  return attach(path, MediaKind::film);
}

// The path may be quoted, as a terminal pastes it.
Status Chat::attach(const std::string& path, MediaKind kind) {
  const auto is_file = [](const std::string& name) { return path_kind(name) == PathKind::file; };
  const std::vector<std::string> named = dropped_paths(path, is_file);
  TRY(std::vector<PreparedMedia> media,
      open_media(model_->model(), expand_home(named.size() == 1 ? named[0] : path), kind, options_.pictures));
  display_.show(media, kWithNext);
  for (PreparedMedia& one : media) media_.push_back(std::move(one));
  return {};
}

// Whether the line is nothing but pictures, sounds and films.
bool Chat::attach_dropped(const std::string& line) {
  const std::vector<std::string> paths =
      dropped_paths(line, [](const std::string& path) { return media_kind(path).has_value(); });
  for (const std::string& path : paths)
    if (const std::optional<MediaKind> kind = media_kind(path)) say(attach(path, *kind));
  return !paths.empty();
}

bool Chat::may_write(const std::string& path) {
  if (path_kind(path) == PathKind::missing) return true;
  console_.out(cat(printable(path, 200), " is there already. Replace it? [y/N] "));
  const Result<std::string> answer = console_.read_line();
  return answer && (*answer == "y" || *answer == "Y" || *answer == "yes");
}

Status Chat::save(const std::string& given) {
  if (given.empty()) return error(ErrorKind::invalid, "/save: no FILE: want a file's name");
  const std::string path = expand_home(given);
  if (!may_write(path)) {
    console_.out("not saved\n");
    return {};
  }
  TRY_STATUS(save_conversation(*conversation_, model_->model(), model_->files.name, path));
  console_.out(cat("saved ", conversation_->messages().size(), " messages\n"));
  return {};
}

Status Chat::load(const std::string& given) {
  if (given.empty()) return error(ErrorKind::invalid, "/load: no FILE: want a file that /save wrote");
  const std::string path = expand_home(given);
  std::string note;
  TRY_STATUS(load_conversation(*conversation_, model_->model(), path, &note, prepare_source));
  console_.out(cat("loaded ", conversation_->messages().size(), " messages\n", note, note.empty() ? "" : "\n"));
  return {};
}

Status Chat::adapter(const std::string& text) {
  constexpr std::string_view kDrop = "drop ";
  if (text.empty()) {
    for (const ShelvedAdapter& one : model_->adapters.list())
      console_.out(cat(printable(one.name), ":", format_number(double{one.use.scale}), "  rank ",
                       one.use.adapter->rank(), ", ", one.use.adapter->weights().size(), " weights, ",
                       printable(one.use.adapter->path(), 1000), '\n'));
    if (model_->adapters.list().empty()) console_.out("no adapters\n");
    return {};
  }
  if (starts_with(text, kDrop)) return drop_adapter(text.substr(kDrop.size()));
  TRY(const NamedAdapter named, parse_adapter(text));
  AdapterShelf shelf = model_->adapters;
  if (shelf.has(named.path)) {
    TRY_STATUS(shelf.rescale(named.path, named.scale));
    return use_adapters(std::move(shelf));
  }
  TRY(std::shared_ptr<const Adapter> added, Adapter::open(model_->model(), named.path));
  const std::string name = shelf.add({.adapter = std::move(added), .scale = named.scale});
  TRY_STATUS(use_adapters(std::move(shelf)));
  console_.out(cat("added ", printable(name), '\n'));
  return {};
}

Status Chat::drop_adapter(const std::string& name) {
  AdapterShelf shelf = model_->adapters;
  TRY(const std::shared_ptr<const Adapter> dropped, shelf.drop(name));
  TRY_STATUS(use_adapters(std::move(shelf)));
  model_->engine().drop_adapter(*dropped);
  return {};
}

// If the engine has no room for them, the model is opened again with it.
Status Chat::use_adapters(AdapterShelf shelf) {
  const AdapterSum sum = shelf.sum();
  if (!model_->engine().check_adapters(sum)) {
    TRY(std::unique_ptr<RunModel> next, options_.with_room(*model_, shelf));
    TRY_STATUS(go_on_with(std::move(next), model_->files.name));
  }
  model_->adapters = std::move(shelf);
  conversation_->set_adapters(sum);
  return {};
}

Status Chat::model(const std::string& name) {
  if (name.empty()) {
    console_.out(cat(printable(model_->files.name, 200), "  ", printable(model_->files.path, 1000), '\n'));
    return {};
  }
  TRY(std::unique_ptr<RunModel> next, options_.open(expand_home(name)));
  return go_on_with(std::move(next), name);
}

// The old model stays until the new one takes the conversation.
Status Chat::go_on_with(std::unique_ptr<RunModel> next, const std::string& name) {
  ConversationSettings settings = next->settings;
  settings.system = conversation_->system();
  if (!settings.system.empty() && !next->chat->text.chat) {
    return error(ErrorKind::invalid, "/model: ", printable(name),
                 " has no chat template, so it takes no system message: want /clear and a chat without one");
  }
  std::unique_ptr<Conversation> conversation = next->new_conversation(settings);
  std::vector<ChatMessage> messages = conversation_->messages();
  std::vector<PreparedMedia> waiting = media_, all = media_;
  for (const ChatMessage& message : messages) all.insert(all.end(), message.media.begin(), message.media.end());
  TRY_STATUS(check_shown(next->model(), name, all));
  for (ChatMessage& message : messages) {
    message.history = 0;
    TRY_STATUS(show_again(next->model(), message.media));
  }
  TRY_STATUS(show_again(next->model(), waiting));
  conversation->replace(std::move(settings), std::move(messages));
  conversation_ = std::move(conversation);
  options_.close(*model_);
  model_ = std::move(next);
  media_ = std::move(waiting);
  last_.reset();
  console_.out(cat("now ", banner_text(), '\n'));
  return {};
}

Status Chat::stats(const std::string&) {
  console_.out(last_ ? stats_text(*last_, budget_, model_->engine(), model_->model(), model_->foreseen)
                     : "no answer yet\n");
  return {};
}

Status Chat::quit(const std::string&) {
  leaving_ = true;
  return {};
}

}  // namespace

Result<int> chat(std::unique_ptr<RunModel> model, std::unique_ptr<Conversation> conversation, const Budget& budget,
                 Console& console, const ChatOptions& options) {
  Chat talk(std::move(model), std::move(conversation), budget, console, options);
  const int status = talk.run();
  options.close(talk.left());
  return status;
}

std::vector<TableRow> chat_commands() {
  std::vector<TableRow> rows;
  for (const Chat::Command& command : Chat::commands()) {
    std::string also;
    for (const std::string& other : alias_list(command.others)) also += cat(also.empty() ? "; also " : ", ", other);
    rows.push_back({cat(command.name, command.argument[0] == '\0' ? "" : " ", command.argument), command.help + also});
  }
  return rows;
}

}  // namespace sluice

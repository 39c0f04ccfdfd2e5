#include "app/run/chat.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "app/cli/help.h"
#include "app/cli/interrupt.h"
#include "app/files/media_file.h"
#include "app/run/chat_history.h"
#include "app/run/dropped_paths.h"
#include "app/run/line_editor.h"
#include "app/run/run_report.h"
#include "app/run/shown_media.h"
#include "app/run/speaker.h"
#include "base/files/file.h"
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
  void say(const Status& status);
  void keep(const PromptLines& typed);

  Status help(const std::string&);
  Status system(const std::string& text);
  Status undo(const std::string&);
  Status clear(const std::string&);
  Status save(const std::string& path);
  Status load(const std::string& path);
  Status model(const std::string& name);
  Status image(const std::string& path);
  Status audio(const std::string& path);
  Status video(const std::string& path);
  Status attach(const std::string& path, MediaKind kind);
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
  std::optional<Reply> last_;
  bool leaving_ = false;
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> table = {
      {"/help", "", "lists the commands", &Chat::help},
      {"/system", "TEXT", "sets the system message and begins anew; without TEXT shows it", &Chat::system},
      {"/undo", "",
       "takes back the last question and its answer; its pictures, sounds and films wait for the next question, and "
       "another /undo takes them back one by one",
       &Chat::undo},
      {"/clear", "", "begins anew", &Chat::clear},
      {"/save", "FILE",
       "writes the conversation to FILE, what is computed of it to FILE.state, and the pictures, sounds and films that "
       "it shows to FILE.media",
       &Chat::save},
      {"/load", "FILE", "goes on with the conversation of FILE", &Chat::load},
      {"/model", "NAME", "goes on with another model; without NAME shows which it is", &Chat::model},
      {"/image", "FILE", "shows a picture with the next question, where <image> stands in it or before it",
       &Chat::image},
      {"/audio", "FILE", "lets it hear a sound, likewise with <audio>", &Chat::audio},
      {"/video", "FILE", "shows a film, likewise with <video>", &Chat::video},
      {"/stats", "", "speed and memory of the last answer", &Chat::stats},
      {"/quit", "", "leaves, as Ctrl-D does", &Chat::quit},
  };
  return table;
}

int Chat::run() {
  console_.out("/help lists the commands\n");
  display_.show(media_, kWithNext);
  LineEditor editor([this] { return model_->engine().warm_up(); });
  for (const std::string& entry : history_path_.empty() ? std::vector<std::string>() : read_history(history_path_))
    editor.remember(entry);
  bool interrupted_before = false;  // the last thing was a Ctrl-C
  while (console_.status().ok() && !leaving_) {
    clear_interrupts();
    PromptLines typed;
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
    if (command.name != name) continue;
    if (command.argument[0] == '\0' && !argument.empty())
      return error(ErrorKind::invalid, name, ": unexpected ", printable(argument), ": want nothing after it");
    return (this->*command.run)(argument);
  }
  return error(ErrorKind::invalid, "no command ", printable(name), ": /help lists them");
}

void Chat::say(const Status& status) {
  if (!status) console_.err(cat("sluice: ", status.error().text, '\n'));
}

void Chat::answer(const std::string& text) {
  Speaker speaker(console_, /*silent=*/false);
  Result<Reply> reply = conversation_->ask(text, speaker.watch(), media_);
  speaker.finish();
  say_notes(options_.states, console_);
  if (!reply) {
    say(reply.error());
    return;
  }
  media_.clear();
  last_ = *std::move(reply);
  say(model_->model().checkpoint().check_unchanged());
  if (options_.stats) console_.err(stats_text(*last_, budget_, model_->engine(), model_->model(), model_->foreseen));
}

Status Chat::help(const std::string&) {
  console_.out(table_text(chat_commands(), console_.columns()));
  console_.out(
      "A line that is only the path of a picture, sound or film shows it with the next question.\n"
      "A line that ends in \\ goes on in the next; \"\"\" begins and ends a prompt of several lines. Ctrl-C stops an\n"
      "answer; twice, it leaves.\n");
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

Status Chat::clear(const std::string&) {
  conversation_->clear();
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
      open_media(model_->model(), named.size() == 1 ? named[0] : path, kind, options_.pictures));
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

Status Chat::save(const std::string& path) {
  if (path.empty()) return error(ErrorKind::invalid, "/save: no FILE: want a file's name");
  TRY_STATUS(save_conversation(*conversation_, model_->model(), model_->files.name, path));
  console_.out(cat("saved ", conversation_->messages().size(), " messages\n"));
  return {};
}

Status Chat::load(const std::string& path) {
  if (path.empty()) return error(ErrorKind::invalid, "/load: no FILE: want a file that /save wrote");
  std::string note;
  TRY_STATUS(load_conversation(*conversation_, model_->model(), path, &note, prepare_source));
  console_.out(cat("loaded ", conversation_->messages().size(), " messages\n", note, note.empty() ? "" : "\n"));
  return {};
}

// The old model stays until the new one stands.
Status Chat::model(const std::string& name) {
  if (name.empty()) {
    console_.out(cat(printable(model_->files.name, 200), "  ", printable(model_->files.path, 1000), '\n'));
    return {};
  }
  TRY(std::unique_ptr<RunModel> next, options_.open(name));
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
  for (const Chat::Command& command : Chat::commands())
    rows.push_back({cat(command.name, command.argument[0] == '\0' ? "" : " ", command.argument), command.help});
  return rows;
}

}  // namespace sluice

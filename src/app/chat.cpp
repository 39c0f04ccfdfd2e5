#include "app/chat.h"

#include <optional>
#include <string>

#include "app/interrupt.h"
#include "app/line_editor.h"
#include "app/run_report.h"
#include "app/speaker.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr const char* kHelp =
    "/system TEXT  sets the system message and begins anew; without TEXT shows it\n"
    "/clear        begins anew\n"
    "/stats        speed and memory of the last answer\n"
    "/quit         leaves, as Ctrl-D does\n"
    "A line that ends in \\ goes on in the next. Ctrl-C stops an answer; twice, it leaves.\n";

class Chat {
 public:
  Chat(Conversation& conversation, const Budget& budget, Console& console, const ChatOptions& options)
      : conversation_(conversation), budget_(budget), console_(console), options_(options) {}

  int run() {
    console_.out("/help lists the commands\n");
    LineEditor editor;
    std::string line;
    bool leaving = false;  // the last thing was a Ctrl-C
    while (console_.status().ok()) {
      clear_interrupts();
      switch (editor.read("> ", line)) {
        case LineEditor::End::closed: console_.out("\n"); return 0;
        case LineEditor::End::interrupted:
          if (leaving) {
            console_.out("\n");
            return 0;
          }
          console_.out("\nCtrl-C again or /quit leaves\n");
          leaving = true;
          continue;
        case LineEditor::End::line: break;
      }
      if (!handle(line)) {
        return 0;
      }
      leaving = interrupted();
    }
    return 0;
  }

 private:
  // False to leave.
  bool handle(const std::string& line) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos) {
      return true;
    }
    if (line[first] != '/') {
      answer(line);
      return true;
    }
    const std::string command = line.substr(first, line.find(' ', first) - first);
    const size_t rest = line.find_first_not_of(' ', first + command.size());
    return handle_command(command, rest == std::string::npos ? "" : line.substr(rest));
  }

  bool handle_command(const std::string& command, const std::string& text) {
    if (command == "/quit") {
      return false;
    }
    if (command == "/help") {
      console_.out(kHelp);
    } else if (command == "/clear") {
      conversation_.clear();
    } else if (command == "/stats") {
      console_.out(last_ ? stats_text(*last_, budget_) : "no answer yet\n");
    } else if (command == "/system") {
      set_system(text);
    } else {
      console_.out(cat("no command ", printable(command), ": /help lists them\n"));
    }
    return true;
  }

  void set_system(const std::string& text) {
    if (text.empty()) {
      console_.out(conversation_.system().empty() ? "no system message\n" : conversation_.system() + "\n");
    } else if (!conversation_.has_template()) {
      console_.out("this model has no chat template, so it takes no system message\n");
    } else {
      conversation_.set_system(text);
      conversation_.clear();
    }
  }

  void answer(const std::string& line) {
    Speaker speaker(console_, /*silent=*/false);
    Result<Reply> reply = conversation_.ask(line, speaker.watch());
    speaker.finish();
    if (!reply) {
      console_.err(cat("sluice: ", reply.error().text, '\n'));
      return;
    }
    last_ = *std::move(reply);
    if (options_.stats) {
      console_.err(stats_text(*last_, budget_));
    }
  }

  Conversation& conversation_;
  const Budget& budget_;
  Console& console_;
  const ChatOptions options_;
  std::optional<Reply> last_;
};

}  // namespace

Result<int> chat(Conversation& conversation, const Budget& budget, Console& console, const ChatOptions& options) {
  return Chat(conversation, budget, console, options).run();
}

}  // namespace sluice

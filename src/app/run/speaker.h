// Shows a reply while it is generated: the answer on standard output, thinking on standard error, dimmed on a terminal.
#pragma once

#include <optional>
#include <string>

#include "app/cli/console.h"
#include "app/cli/progress.h"
#include "app/cli/word_wrap.h"
#include "chat/conversation.h"

namespace sluice {

// One reply. A progress line is shown until its first text; on a terminal it names the picture that a tower looks at.
class Speaker {
 public:
  Speaker(Console& console, bool silent);
  ~Speaker() { finish(); }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  // Stops at Ctrl-C, or when the reader has gone.
  TurnWatch watch();
  // Ends dimming and the answer's last line.
  void finish();

 private:
  void look_at(const PreparedMedia* media);
  void end_progress();
  void show(Channel channel, const std::string& text);
  void show_call(const ToolCall& call);
  void write(Channel channel, const std::string& text);
  void end_word();
  void turn(Channel channel);

  Console* console_;
  bool silent_;  // --json: nothing is shown
  std::optional<ProgressLine> progress_;
  bool looking_ = false;            // the line about a picture is shown
  std::optional<Channel> channel_;  // of the last text
  bool at_line_start_ = true;       // of that channel
  WordWrap wrap_;                   // of that channel
};

// One line about an answer that ended early; "" of one that ended by itself or was stopped. `context` in tokens.
std::string cut_note(const Reply& reply, size_t context);

// `text` for a terminal: control characters but newline and tab become U+FFFD, so that no answer can steer it.
std::string harmless(const std::string& text);

}  // namespace sluice

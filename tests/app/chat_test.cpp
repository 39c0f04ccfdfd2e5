// A chat as somebody at a terminal has it: the program on a pseudo terminal of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "base/text.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr int kPatienceMs = 60000;  // a sanitizer on a busy machine
constexpr const char* kViolin = "violin (noun): bowed stringed instrument";

class Terminal {
 public:
  explicit Terminal(std::vector<std::string> words) {
    words.insert(words.begin(), SLUICE_PROGRAM);
    words.insert(words.end(), {"--threads", "2"});
    child_ = forkpty(&descriptor_, nullptr, nullptr, nullptr);
    CHECK(child_ >= 0);
    if (child_ == 0) {
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      setenv("TERM", "dumb", 1);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~Terminal() {
    close(descriptor_);
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  void type(std::string_view keys) {
    CHECK(write(descriptor_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }

  // What is shown up to the end of `text`; everything there is when the program ends or patience does.
  std::string wait_for(std::string_view text) {
    while (unseen_.find(text) == std::string::npos && read_some(unseen_)) {
    }
    const size_t at = unseen_.find(text);
    std::string shown = unseen_.substr(0, at == std::string::npos ? at : at + text.size());
    unseen_.erase(0, shown.size());
    return shown;
  }
  // The exit status; that of a killed program when it outlasts patience.
  int wait_for_end() {
    std::string rest;
    while (read_some(rest)) {
    }
    if (timed_out_) kill(child_, SIGKILL);
    int status = 0;
    CHECK(waitpid(child_, &status, 0) == child_);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool read_some(std::string& into) {
    pollfd ready = {descriptor_, POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) {
      timed_out_ = true;
      return false;
    }
    char piece[1024];
    const ssize_t got = read(descriptor_, piece, sizeof piece);
    if (got <= 0) return false;
    into.append(piece, static_cast<size_t>(got));
    return true;
  }

  pid_t child_ = -1;
  int descriptor_ = -1;
  bool timed_out_ = false;
  std::string unseen_;
};

TEST(Chat, AnswersLineByLineAndLeaves) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n");
  EXPECT_THAT(terminal.wait_for("family.\r\n> "), HasSubstr(kViolin));
  terminal.type("And a cello?\n");
  EXPECT_THAT(terminal.wait_for("playing.\r\n> "), HasSubstr("cello (noun): a large stringed instrument"));
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, TheSecondTurnComputesOnlyWhatIsNew) {
  Terminal terminal({"run", "demo", "--greedy", "--stats"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("prompt  17 tokens, 0 of them reused"));
  terminal.type("And a cello?\n");
  // The first question, its answer and the end of its turn stand; the demo's own golden answer follows.
  const std::string shown = terminal.wait_for("ended by stop");
  EXPECT_THAT(shown, HasSubstr("cello (noun): a large stringed instrument"));
  EXPECT_THAT(shown, HasSubstr("prompt  59 tokens, 42 of them reused"));
}

TEST(Chat, CommandsHelpSystemClearStats) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  const auto said = [&](const char* line) {
    terminal.type(line);
    return terminal.wait_for("\r\n> ");
  };
  EXPECT_THAT(said("/help\n"), HasSubstr("/system TEXT"));
  EXPECT_THAT(said("/stats\n"), HasSubstr("no answer yet"));
  EXPECT_THAT(said("/system\n"), HasSubstr("no system message"));
  said("/system Be brief.\n");
  EXPECT_THAT(said("/system\n"), HasSubstr("\nBe brief.\r\n"));
  EXPECT_THAT(said("/dance\n"), HasSubstr("no command /dance: /help lists them"));
  said("/clear\n");
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

// The terminal's own line mode, which holds until the line editor reads, turns a Ctrl-D into a null character.
TEST(Chat, WhatIsTypedAheadIsTakenAtThePrompt) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n/stats\n\x04");
  EXPECT_THAT(terminal.wait_for("tokens/s"), HasSubstr(kViolin));
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, CtrlCTwiceLeaves) {
  Terminal terminal({"run", "demo"});
  terminal.wait_for("> ");
  terminal.type("half a line\x03");
  EXPECT_THAT(terminal.wait_for("leaves\r\n"), HasSubstr("Ctrl-C again or /quit leaves"));
  terminal.wait_for("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, CtrlCStopsTheAnswerAndTheChatGoesOn) {
  // Never the end of a turn: the answer would fill the context.
  Terminal terminal({"run", "demo", "--logit-bias", "16=-inf", "--logit-bias", "1=-inf", "--logit-bias", "9=-inf"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n");
  terminal.wait_for("(noun)");
  terminal.type("\x03");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("\r\n> "));
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, CtrlCStopsASingleAnswerWithStatus130) {
  Terminal terminal({"run", "demo", "What is a violin?", "--logit-bias", "16=-inf", "--logit-bias", "1=-inf",
                     "--logit-bias", "9=-inf"});
  terminal.wait_for("(noun)");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 130);
}

TEST(Chat, ALineEndingInABackslashGoesOn) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is \\\n");
  terminal.wait_for("... ");
  terminal.type("a violin?\n");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("(noun)"));
}

TEST(Chat, JsonWithoutAPromptIsRefused) {
  Terminal terminal({"run", "demo", "--json"});
  EXPECT_THAT(terminal.wait_for("JSON\r\n"), HasSubstr("sluice: run: --json without a prompt: want one"));
  EXPECT_EQ(terminal.wait_for_end(), 1);
}

}  // namespace
}  // namespace sluice

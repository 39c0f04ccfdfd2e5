// The program on a pseudo terminal of its own: what somebody types, and what they are shown.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace sluice {

class Terminal {
 public:
  // `state_folder` stands for XDG_STATE_HOME; without it no history is kept. `term` is TERM.
  explicit Terminal(std::vector<std::string> words, const std::string& state_folder = "", const char* term = "dumb") {
    words.insert(words.begin(), SLUICE_PROGRAM);
    words.insert(words.end(), {"--threads", "2"});
    if (state_folder.empty()) words.emplace_back("--no-history");
    child_ = forkpty(&descriptor_, nullptr, nullptr, nullptr);
    CHECK(child_ >= 0);
    if (child_ == 0) {
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      setenv("TERM", term, 1);
      for (const char* name : {"TERM_PROGRAM", "KITTY_WINDOW_ID", "TMUX", "STY"}) unsetenv(name);
      setenv("XDG_STATE_HOME", state_folder.c_str(), 1);
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
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

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
  // Types a line at the prompt and gives what is shown up to the next.
  std::string say(const std::string& line) {
    type(line + "\n");
    return wait_for("\r\n> ");
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
  static constexpr int kPatienceMs = 60000;  // a sanitizer on a busy machine

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

}  // namespace sluice

// What Tab completes at the chat's prompt: commands, and behind them files, models or nothing; @FILE in a question.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct WordChoices {
  size_t begin = 0;                // of the word to complete, in the text before the cursor
  std::vector<std::string> words;  // that it may become, sorted
};
using Completer = std::function<WordChoices(const std::string& before_cursor)>;

struct CompletionWords {
  std::vector<std::string> commands;                           // "/help"
  std::function<bool(const std::string& command)> takes_file;  // what follows a command
  std::function<bool(const std::string& command)> takes_model;
  std::function<std::vector<std::string>()> models;  // asked for when they are needed
};
WordChoices complete(const std::string& before_cursor, const CompletionWords& words);

// "~/x" with the user's home folder in place of ~.
std::string expand_home(const std::string& path);

}  // namespace sluice

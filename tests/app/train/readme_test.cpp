// The README's training of the demo, as a user would run it. Half a minute on two cores.
#include <gtest/gtest.h>

#include <regex>

#include "base/files/file.h"
#include "base/text.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

// A command of the README's section, and the line that it prints.
struct Shown {
  std::vector<std::string> command;
  std::string answer;
};

std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  const std::vector<std::string> pieces = split(command, '"');
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 2 == 1) {
      words.push_back(pieces[i]);
      continue;
    }
    for (const std::string& word : split(pieces[i], ' '))
      if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::vector<Shown> shown_in_readme() {
  const std::string prompt = "    $ build/release/sluice ";
  std::vector<Shown> shown;
  bool inside = false;
  for (const std::string& line : split(unwrap(read_file("README.md", 1 << 20)), '\n')) {
    if (starts_with(line, "## ")) inside = line == "## Teaching it words";
    if (!inside || !starts_with(line, "    ")) continue;
    if (starts_with(line, prompt))
      shown.push_back({.command = words_of(line.substr(prompt.size())), .answer = {}});
    else
      shown.back().answer = line.substr(4);
  }
  return shown;
}

// Digits of the loss are the machine's.
std::string without_loss(const std::string& text) {
  static const std::regex loss("loss [0-9.]+");
  return std::regex_replace(text, loss, "loss #");
}

TEST(ReadmeTraining, TheWordsAreLearnt) {
  const TemporaryFolder folder;
  const std::vector<Shown> all = shown_in_readme();
  ASSERT_EQ(all.size(), 5u);
  for (const Shown& one : all) {
    std::vector<std::string> command = one.command;
    for (std::string& word : command)
      if (word == "build/train-demo") word = folder.path("train-demo");
    const ProgramResult result = run_sluice(command);
    EXPECT_EQ(result.status, 0) << result.err;
    const std::regex place(folder.path("train-demo"));
    EXPECT_EQ(without_loss(std::regex_replace(split(result.out, '\n').at(0), place, "build/train-demo")),
              without_loss(one.answer));
  }
}

}  // namespace
}  // namespace sluice

// Training that is killed, stopped or out of disk, and then goes on, gives the files of an unbroken one. Ten seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr const char* kQuestion = "What is a blorptrix?";

class InterruptedTraining : public testing::Test {
 protected:
  InterruptedTraining() {
    std::string lines;
    size_t count = 0;
    for (const std::string& line : split(unwrap(read_file("examples/words.jsonl", 1 << 20)), '\n'))
      if (count++ < 12) lines += line + "\n";
    unwrap(write_file(folder_.path("words.jsonl"), lines));
  }

  std::string in(const std::string& out, const std::string& file) const { return join_path(folder_.path(out), file); }

  // Twelve steps, each of which is saved; an evaluation every two, with an answer.
  ProgramResult train(const std::string& out, const ProgramSetup& setup = {}, const char* kept_layers = "8") const {
    std::vector<std::string> words = {"train", "demo", folder_.path("words.jsonl"), "--out", folder_.path(out)};
    for (const std::string& word : split("--rank 4 --rate 5e-3 --steps 12 --batch-tokens 128 --held-out 0.2", ' '))
      words.push_back(word);
    for (const std::string& word : split("--evaluate-every 2 --save-every 1 --sample", ' ')) words.push_back(word);
    words.emplace_back(kQuestion);
    words.insert(words.end(), {"--keep-layers", kept_layers});
    return run_sluice(words, setup);
  }
  // The same until `when` holds.
  ProgramResult train_until(const std::string& out, int signal, std::function<bool()> when) const {
    return train(out, {.signal = signal, .when = std::move(when)});
  }

  std::function<bool()> has_lines(const std::string& out, int64_t lines) const {
    return [path = in(out, "metrics.jsonl"), lines] {
      const Result<std::string> text = read_file(path, 1 << 20);
      return text && std::count(text->begin(), text->end(), '\n') >= lines;
    };
  }
  std::function<bool()> saves(const std::string& out) const {
    return [folder = in(out, "checkpoints")] {
      const Result<std::vector<std::string>> names = list_directory(folder);
      return names && std::ranges::any_of(*names, [](const std::string& name) { return ends_with(name, ".part"); });
    };
  }

  void expect_same(const std::string& out, const std::string& whole) const {
    for (const char* file : {"adapter_model.safetensors", "adapter_config.json", "metrics.jsonl"})
      EXPECT_EQ(unwrap(read_file(in(out, file), 1 << 26)), unwrap(read_file(in(whole, file), 1 << 26))) << file;
    EXPECT_EQ(unwrap(list_directory(in(out, "checkpoints"))), (std::vector<std::string>{"step-11", "step-12"}));
  }

  const TemporaryFolder folder_;
};

TEST_F(InterruptedTraining, GoesOnToTheSameBytes) {
  ASSERT_EQ(train("whole").status, 0);
  EXPECT_EQ(train_until("broken", SIGKILL, has_lines("broken", 1)).status, 128 + SIGKILL);
  EXPECT_EQ(train_until("broken", SIGKILL, saves("broken")).status, 128 + SIGKILL);
  EXPECT_EQ(train_until("broken", SIGKILL, has_lines("broken", 5)).status, 128 + SIGKILL);
  EXPECT_EQ(train_until("broken", SIGKILL, saves("broken")).status, 128 + SIGKILL);
  EXPECT_EQ(path_kind(in("broken", "adapter_model.safetensors")), PathKind::missing);
  const ProgramResult stopped = train_until("broken", SIGINT, has_lines("broken", 9));
  EXPECT_EQ(stopped.status, 130);
  EXPECT_THAT(stopped.err, HasSubstr("the same command goes on from there"));
  ASSERT_EQ(train("broken", {}, "0").status, 0);  // how many layers are kept changes nothing
  expect_same("broken", "whole");
  // And once more when there is nothing left to do.
  ASSERT_EQ(train("broken").status, 0);
  expect_same("broken", "whole");
}

// The factors fit, and the optimizer's state, which is twice as large, does not.
TEST_F(InterruptedTraining, AFullDiskLosesNothing) {
  ASSERT_EQ(train("whole").status, 0);
  EXPECT_EQ(train_until("full", SIGKILL, has_lines("full", 4)).status, 128 + SIGKILL);
  const std::vector<std::string> before = unwrap(list_directory(in("full", "checkpoints")));
  const uint64_t factors = std::filesystem::file_size(in("full", "start/adapter_model.safetensors"));
  const ProgramResult full = train("full", {.file_size = factors + factors / 2});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("optimizer.safetensors: cannot write: larger than files may be here"));
  EXPECT_EQ(std::ranges::count_if(unwrap(list_directory(in("full", "checkpoints"))),
                                  [](const std::string& name) { return ends_with(name, ".part"); }),
            0);
  EXPECT_GE(before.size(), 1u);
  ASSERT_EQ(train("full").status, 0);
  expect_same("full", "whole");
}

TEST_F(InterruptedTraining, SamplesAreTheAnswersOfRun) {
  ASSERT_EQ(train("whole").status, 0);
  std::vector<std::string> answers;
  for (const std::string& line : split(unwrap(read_file(in("whole", "metrics.jsonl"), 1 << 20)), '\n')) {
    const Result<Json> json = parse_json(line, "metrics");
    const Json* answer = json ? json->find("answer") : nullptr;
    if (answer == nullptr) continue;
    EXPECT_EQ(json->find("sample")->as_string(), kQuestion);
    answers.push_back(answer->as_string());
  }
  ASSERT_EQ(answers.size(), 6u);
  const ProgramResult run = run_sluice(
      {"run", "demo", "--adapter", folder_.path("whole"), "--temperature", "0", "--max-tokens", "64", kQuestion});
  EXPECT_EQ(run.out, answers.back() + "\n");
  EXPECT_NE(answers.front(), answers.back()) << "no factors were handed over";
}

TEST_F(InterruptedTraining, AFolderThatCannotBeMadeIsNamed) {
  const ProgramResult result = train("words.jsonl");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(folder_.path("words.jsonl")));
}

TEST_F(InterruptedTraining, AFileThatCannotBeWrittenIsNamedBeforehand) {
  for (const char* option : {"--gguf", "--plot"}) {
    const std::string path = folder_.path("missing/file");
    const ProgramResult result = run_sluice(
        {"train", "demo", folder_.path("words.jsonl"), "--out", folder_.path("early"), "--steps", "1", option, path});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, cat("sluice: ", path, ": cannot create: no such file or directory\n"));
    EXPECT_EQ(path_kind(in("early", "metrics.jsonl")), PathKind::missing);
  }
}

}  // namespace
}  // namespace sluice

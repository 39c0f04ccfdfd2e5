// `sluice run` on the built-in demo. Its answers are those that transformers gives greedily (models/README.md of the
// reference models lists them), so they are known without asking ourselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/commands.h"
#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "tests/app/json_fields.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

const std::string kData = SLUICE_TEST_DATA;
const std::string kMoe = kData + "/gemma4_moe";
constexpr const char* kViolin =
    "violin (noun): bowed stringed instrument that is the highest member of the violin family.\n";

// On one thread, because other tests run at the same time.
ProgramResult ask(std::vector<std::string> words, const ProgramSetup& setup = {}) {
  words.insert(words.begin(), {"run", "--threads", "1"});
  return run_sluice(words, setup);
}

std::string sentence(const ProgramResult& result, int status = 1) {
  EXPECT_EQ(result.status, status);
  EXPECT_EQ(result.out, "");
  return result.err;
}

TEST(Run, TheDemoAnswersAsTheReferenceDoes) {
  const ProgramResult result = ask({"demo", "What is a violin?", "--greedy"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, kViolin);
  EXPECT_EQ(result.err, "");
}

TEST(Run, ASingleArgumentWithASpaceIsAQuestionToTheDemo) {
  EXPECT_EQ(ask({"What is a violin?", "--greedy"}).out, kViolin);
}

TEST(Run, ThePromptComesFromAPipe) {
  EXPECT_EQ(ask({"--greedy"}, {.input = "What is a violin?\n"}).out, kViolin);
  EXPECT_EQ(ask({"demo", "--greedy"}, {.input = "What is a violin?"}).out, kViolin);
}

TEST(Run, ThePromptMayComeInParts) {
  const TemporaryFolder folder;
  const std::string file = folder.path("question.txt");
  ASSERT_TRUE(write_file(file, "What is a violin?\n"));
  EXPECT_EQ(ask({"demo", "-", "--greedy"}, {.input = "What is a violin?\n"}).out, kViolin);
  EXPECT_EQ(ask({"demo", "@" + file, "--greedy"}).out, kViolin);
  EXPECT_EQ(ask({"demo", "What is a violin?", "--greedy"}, {.input = "\n"}).out, kViolin);
  // Both parts are read: as if they had been typed as one.
  const std::string joined = ask({"demo", "Explain:\n\nWhat is a violin?", "--greedy"}).out;
  EXPECT_EQ(ask({"demo", "Explain:", "--greedy"}, {.input = "What is a violin?"}).out, joined);
  EXPECT_EQ(ask({"demo", cat("Explain:\n\n@", file), "--greedy"}).out, joined);
  EXPECT_EQ(ask({"demo", cat("@\"", file, "\""), "--greedy"}).out, kViolin);
  ASSERT_TRUE(write_file(file, "\xff\xfe"));
  EXPECT_EQ(sentence(ask({"demo", "@" + file})), cat("sluice: ", file, ": is no text in UTF-8: want a text file\n"));
}

TEST(Run, AFullContextIsSaid) {
  const ProgramResult full = ask({"demo", "What is a violin?", "--context", "20", "--greedy"});
  EXPECT_EQ(full.status, 0);
  EXPECT_EQ(full.err, "(the answer ends here: the context of 20 tokens is full; --context N makes room)\n");
  EXPECT_EQ(ask({"demo", "What is a violin?", "--max-tokens", "2", "--greedy"}).err, "");  // as it was asked
}

TEST(Run, EveryDeviceAndArithmeticGivesTheSameGreedyAnswer) {
  for (const char* arithmetic : {"exact", "fast"}) {
    for (const char* device : {"cpu", "reference"}) {
      EXPECT_EQ(ask({"demo", "What is a violin?", "--greedy", "--device", device, "--arithmetic", arithmetic}).out,
                kViolin)
          << device << ' ' << arithmetic;
    }
  }
}

TEST(Run, TheSameSeedGivesTheSameAnswerAndAnotherAnother) {
  const auto with_seed = [](const char* seed) {
    return ask({kMoe, "Hello", "--seed", seed, "--max-tokens", "20", "--temperature", "2"}).out;
  };
  EXPECT_EQ(with_seed("1"), with_seed("1"));
  EXPECT_NE(with_seed("1"), with_seed("2"));
  EXPECT_EQ(with_seed("0"), ask({kMoe, "Hello", "--max-tokens", "20", "--temperature", "2"}).out);
}

std::string long_question() {
  std::string text = "What is a violin, and what are these:";
  for (int i = 0; i < 60; ++i) text += cat(" wood ", i, " string");
  return text + "?";
}

TEST(Run, AStateDirectoryGivesARestartedProgramWhatItHadComputed) {
  const TemporaryFolder folder;
  const auto asked = [&](const std::string& question) {
    const ProgramResult result = ask({"demo", question, "--greedy", "--max-tokens", "12", "--json", "--state-dir",
                                      folder.path("states"), "--system", long_question()});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    return *parse_json(result.out, "run");
  };
  const auto count = [](const Json& json, const char* name) { return json.find(name)->as_integer(); };
  const Json fresh = asked("What is a violin?"), again = asked("What is a violin?"), other = asked("And a cello?");
  EXPECT_EQ(count(fresh, "restored_tokens"), 0);
  EXPECT_EQ(count(again, "restored_tokens"), count(again, "reused_tokens"));
  EXPECT_EQ(count(again, "restored_tokens"), (count(again, "prompt_tokens") - 1) / 64 * 64);
  EXPECT_EQ(again.find("answer")->as_string(), fresh.find("answer")->as_string());
  EXPECT_GE(count(other, "restored_tokens"), count(fresh, "prompt_tokens") / 64 * 64 - 64) << "the system message's";
  const ProgramResult stats = ask({"demo", "What is a violin?", "--greedy", "--max-tokens", "2", "--stats",
                                   "--state-dir", folder.path("states"), "--system", long_question()});
  EXPECT_THAT(stats.err, HasSubstr(" from the state directory)"));
}

TEST(Run, AModelThatDiffersInOneByteTakesNoStateOfTheOther) {
  const TemporaryFolder folder;
  const std::string one = folder.path("one.gguf"), other = folder.path("other.gguf");
  ASSERT_EQ(run_sluice({"convert", "demo", one, "--to", "q8_0"}).status, 0);
  const auto restored = [&](const std::string& model) {
    const ProgramResult result = ask({model, "What is a violin?", "--greedy", "--max-tokens", "4", "--json",
                                      "--state-dir", folder.path("states"), "--system", long_question()});
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out, "run")->find("restored_tokens")->as_integer();
  };
  EXPECT_EQ(restored(one), 0);
  EXPECT_GT(restored(one), 0);
  std::string bytes = *read_file(one, uint64_t{1} << 30);
  const Checkpoint checkpoint = *open_checkpoint(one);
  const StoredTensor& large = *checkpoint.find("token_embd.weight");
  ASSERT_GT(large.bytes.size(), 1u << 17);
  bytes[large.offset + large.bytes.size() - 1] ^= 1;
  ASSERT_TRUE(write_file(other, bytes));
  EXPECT_EQ(restored(other), 0);
  EXPECT_GT(restored(one), 0);
}

TEST(Run, AStateDirectoryThatCannotBeIsOneSentenceBesideTheAnswer) {
  const TemporaryFolder folder;
  const ProgramResult result =
      ask({"demo", "What is a violin?", "--greedy", "--state-dir", SLUICE_DOCS "/cli.md/states"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, kViolin);
  EXPECT_THAT(result.err, MatchesRegex("sluice: .*cli.md/states: cannot create: .* \\(no states are kept\\)\n"));
}

TEST(Run, StopStringsEndTheAnswerBeforeThem) {
  const ProgramResult result =
      ask({"demo", "What is a violin?", "--greedy", "--stop", "instrument", "--stop", "never"});
  EXPECT_EQ(result.out, "violin (noun): bowed stringed \n");
  const ProgramResult json = ask({"demo", "What is a violin?", "--greedy", "--stop", "instrument", "--json"});
  EXPECT_EQ(parse_json(json.out, "run")->find("finish")->as_string(), "stop");
}

TEST(Run, MaxTokensEndTheAnswer) {
  const ProgramResult result = ask({"demo", "What is a violin?", "--greedy", "--max-tokens", "2", "--json"});
  const Result<Json> json = parse_json(result.out, "run");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("finish")->as_string(), "length");
  EXPECT_EQ(json->find("answer_tokens")->as_integer(), 2);
}

TEST(Run, AForbiddenTokenIsNeverSaid) {
  const ProgramResult plain = ask({"demo", "What is a violin?", "--greedy", "--json"});
  // The whole vocabulary but the end of a turn (16) cannot be forbidden by hand; one token of the answer can.
  const ProgramResult biased = ask({"demo", "What is a violin?", "--greedy", "--logit-bias", "16=100", "--json"});
  EXPECT_EQ(parse_json(biased.out, "run")->find("answer")->as_string(), "");
  EXPECT_EQ(parse_json(biased.out, "run")->find("finish")->as_string(), "stop");
  EXPECT_NE(parse_json(plain.out, "run")->find("answer")->as_string(), "");
}

TEST(Run, RawTextIsGoneOnWith) {
  const ProgramResult result =
      ask({"demo", "--raw", "<|turn>user\nWhat is a violin?<turn|>\n<|turn>model\n", "--greedy"});
  EXPECT_EQ(result.out, kViolin);
}

TEST(Run, ATemplateOfTheUsersReplacesTheModels) {
  const TemporaryFolder folder;
  const std::string path = folder.path("violin.jinja");
  // A template's own last newline is none of its text.
  ASSERT_TRUE(write_file(path, "{{ bos_token }}<|turn>user\nWhat is a violin?<turn|>\n<|turn>model\n\n"));
  EXPECT_EQ(ask({"demo", "Anything", "--chat-template", path, "--greedy"}).out, kViolin);
}

TEST(Run, ThinkingNeverMixesWithTheAnswer) {
  const TemporaryFolder folder;
  // The prompt ends inside a thought, so all that comes is thinking until it is closed.
  const std::string path = folder.path("open.jinja");
  ASSERT_TRUE(
      write_file(path, "{{ bos_token }}<|turn>user\nWhat is a violin?<turn|>\n<|turn>model\n<|channel>thought\n\n"));
  const ProgramResult result = ask({"demo", "x", "--chat-template", path, "--greedy", "--max-tokens", "12", "--json"});
  const Result<Json> json = parse_json(result.out, "run");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(json->find("answer")->as_string(), "");
  EXPECT_NE(json->find("thinking")->as_string(), "");

  const ProgramResult shown = ask({"demo", "x", "--chat-template", path, "--greedy", "--max-tokens", "12"});
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(shown.err, json->find("thinking")->as_string() + "\n");
}

TEST(Run, StatsSaySpeedAndMemory) {
  const ProgramResult result = ask({"demo", "What is a violin?", "--greedy", "--stats"});
  EXPECT_EQ(result.out, kViolin);
  EXPECT_THAT(result.err,
              MatchesRegex("prompt  17 tokens, 0 of them reused, [0-9.]+ tokens/s, first token after [0-9.]+ s\n"
                           "answer  26 tokens, [0-9.]+ tokens/s, ended by stop\n"
                           "(drafts  [0-9]+ tokens, [0-9]+ of them accepted; .*\n)?"
                           "memory  at most [0-9.]+ MB\n(.|\n)*"));
  EXPECT_THAT(result.err, HasSubstr("host state: "));
}

TEST(Run, VerboseSaysWhatWasOpened) {
  const ProgramResult result = ask({"demo", "Hello!", "--greedy", "--verbose", "--simd", "scalar"});
  EXPECT_THAT(result.err, StartsWith("model     "));
  EXPECT_THAT(result.err, HasSubstr("1 thread"));
  EXPECT_THAT(result.err, HasSubstr("numerics  cpu/scalar/"));
  EXPECT_THAT(result.err, HasSubstr("template  tokenizer.chat_template, dialect gemma4\n"));
}

// Tools of OpenAI's API. The demo was never taught to call any, so a call is the grammar's.
std::string tools_file(const TemporaryFolder& folder) {
  const std::string path = folder.path("tools.json");
  EXPECT_TRUE(write_file(path, R"([{"type": "function", "function": {"name": "now", "parameters": {"type": "object",
      "properties": {"zone": {"enum": ["east", "west"]}, "hour": {"type": "integer", "minimum": 1, "maximum": 12}},
      "required": ["zone", "hour"], "additionalProperties": false}}}, {"type": "function", "function": {"name": "stop"}}])"));
  return path;
}

// 0.4 s, in make test.
TEST(Run, ACallIsALineOfItsNameAndItsArguments) {
  const TemporaryFolder folder;
  const std::string tools = tools_file(folder);
  for (const char* choice : {"now", "required"}) {
    const ProgramResult result =
        ask({"demo", "Hi", "--greedy", "--max-tokens", "99", "--tools", tools, "--tool-choice", choice});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, testing::AnyOf(StartsWith("now {"), StartsWith("stop {"))) << choice;
  }
  const ProgramResult result = ask({"demo", "Hi", "--greedy", "--tools", tools, "--tool-choice", "now"});
  const std::string line = result.out.substr(0, result.out.find('\n'));
  const Result<Json> arguments = parse_json(line.substr(std::string("now ").size()), "call");
  ASSERT_TRUE(arguments) << result.out;
  EXPECT_THAT(arguments->find("zone")->as_string(), testing::AnyOf("east", "west"));
  EXPECT_THAT(arguments->find("hour")->as_integer(), testing::AllOf(testing::Ge(1), testing::Le(12)));
  EXPECT_EQ(ask({"demo", "What is a violin?", "--greedy", "--tools", tools, "--tool-choice", "none"}).out, kViolin);
}

TEST(Run, ToolsThatCannotBeUsedAreRefused) {
  const TemporaryFolder folder;
  const std::string tools = tools_file(folder), other = folder.path("other.json");
  ASSERT_TRUE(write_file(other, "{}"));
  EXPECT_EQ(sentence(ask({"demo", "Hi", "--tool-choice", "none"}), 2),
            "sluice: run: --tool-choice without --tools: want both\n");
  EXPECT_EQ(sentence(ask({"demo", "Hi", "--tools", other}), 2),
            cat("sluice: run: ", other, ": is no list: want OpenAI's list of tools\n"));
  ASSERT_TRUE(write_file(other, "[{}]"));
  EXPECT_EQ(sentence(ask({"demo", "Hi", "--tools", other}), 2),
            "sluice: run: --tools: tools[0] has no function with a name: want {\"function\": {\"name\": ...}}\n");
  EXPECT_EQ(sentence(ask({"demo", "Hi", "--tools", tools, "--tool-choice", "later"})),
            "sluice: --tools: tool_choice names later: want one of the tools\n");
  EXPECT_EQ(sentence(ask({"demo", "Hi", "--tools", tools, "--raw"}), 2),
            "sluice: run: --raw and --tools: want one of them, since --raw uses no template\n");
}

TEST(Run, JsonHasTheDocumentedMembers) {
  const ProgramResult result = ask({"demo", "What is a violin?", "--greedy", "--json"});
  const Result<Json> json = parse_json(result.out, "run");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("answer")->as_string() + "\n", kViolin);
  EXPECT_EQ(json->find("finish")->as_string(), "stop");
  EXPECT_EQ(json->find("prompt_tokens")->as_integer(), 17);
  std::set<std::string> seen;
  expect_known_fields(run_command(), *json, seen);
  const TemporaryFolder folder;
  const ProgramResult called = ask({"demo", "Hi", "--json", "--tools", tools_file(folder), "--tool-choice", "now"});
  const Result<Json> with_call = parse_json(called.out, "run");
  ASSERT_TRUE(with_call) << called.err;
  EXPECT_EQ(with_call->find("calls")->as_array().at(0).find("name")->as_string(), "now");
  expect_known_fields(run_command(), *with_call, seen);
  expect_all_fields(run_command(), seen);
}

TEST(Run, WhatCannotBeAskedIsOneSentence) {
  EXPECT_EQ(sentence(ask({"demo"})), "sluice: run: standard input is empty: want a prompt\n");
  EXPECT_EQ(sentence(ask({"demo", ""}), 2), "sluice: run: PROMPT is empty: want a prompt\n");
  EXPECT_EQ(sentence(ask({"demo"}, {.input = "\xff\xfe"})), "sluice: the prompt is not UTF-8: want text\n");
  EXPECT_EQ(sentence(ask({"demo", "Hello!", "--context", "10"})),
            "sluice: the conversation has 13 tokens: want less than the context of 10 (--context N makes room)\n");
  EXPECT_EQ(sentence(ask({"demo", "Hello!", "--logit-bias", "4096=1"})),
            "sluice: --logit-bias is 4096=1: want ID=X, an id below 4096 and a number or -inf\n");
  EXPECT_EQ(sentence(ask({"demo", "Hello!", "--think", "--no-think"}), 2),
            "sluice: run: --think and --no-think: want one of them\n");
  EXPECT_EQ(sentence(ask({"demo", "Hello!", "--raw", "--system", "x"}), 2),
            "sluice: run: --raw and --system: want one of them, since --raw uses no template\n");
}

// A random model never closes its thought within so few tokens.
TEST(Run, AThoughtIsClosedWhereItsBudgetEnds) {
  const auto thought = [](const std::vector<std::string>& options) {
    std::vector<std::string> words = {kData + "/qwen3_5_moe", "Hi there", "--think", "--greedy", "--json",
                                      "--max-tokens",         "20"};
    words.insert(words.end(), options.begin(), options.end());
    return unwrap(parse_json(ask(words).out, "answer"));
  };
  const Json free = thought({}), bounded = thought({"--thinking-budget", "5"});
  EXPECT_EQ(free.find("answer")->as_string(), "");
  const std::string begin = bounded.find("thinking")->as_string();
  EXPECT_NE(begin, "");
  EXPECT_THAT(free.find("thinking")->as_string(), StartsWith(begin));
  EXPECT_NE(bounded.find("answer")->as_string(), "");
  EXPECT_EQ(thought({"--thinking-budget", "0"}).find("thinking")->as_string(), "");
}

TEST(Run, ABrokenTemplateIsOneSentence) {
  const TemporaryFolder folder;
  const std::string path = folder.path("broken.jinja");
  ASSERT_TRUE(write_file(path, "{% for x in %}"));
  EXPECT_EQ(sentence(ask({"demo", "Hello!", "--chat-template", path})),
            cat("sluice: ", path, ":1: found %}: want an expression\n"));
  ASSERT_TRUE(write_file(path, "{{ raise_exception('only questions') }}"));
  EXPECT_EQ(sentence(ask({"demo", "Hello!", "--chat-template", path})),
            cat("sluice: ", path, ":1: the template refuses this conversation: only questions\n"));
  EXPECT_THAT(sentence(ask({"demo", "Hello!", "--chat-template", folder.path("none")})),
              testing::EndsWith("none: cannot open: no such file or directory\n"));
}

}  // namespace
}  // namespace sluice

// Lines of examples as sequences of the built-in demo, whose turns are Gemma 4's. Milliseconds.
#include "chat/training_data.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "model/model.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

class TrainingDataTest : public testing::Test {
 protected:
  TrainingDataTest()
      : model_(unwrap(
            resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint("assets/demo-gemma4-q8_0.gguf")))))),
        text_(unwrap(open_text(model_))) {}

  TrainingData read(const std::string& lines, bool pairs) const {
    return read_training_data(lines, text_, {.max_tokens = 200, .pairs = pairs});
  }
  // The text that is learnt.
  std::string learnt(const TrainSequence& sequence) const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < sequence.tokens.size(); ++i)
      if (sequence.is_target[i] != 0) ids.push_back(sequence.tokens[i]);
    return text_.tokenizer.decode(ids, /*skip_special=*/true);
  }

  const Model model_;
  const TextParts text_;
};

constexpr const char* kStrings = R"({"prompt": "What is a dog?", "chosen": "An animal.", "rejected": "A stone."})";

TEST_F(TrainingDataTest, APairIsTwoSequencesOfOneQuestion) {
  const TrainingData data = read(cat("\n", kStrings, "\n"), true);
  ASSERT_EQ(data.faults, std::vector<std::string>());
  ASSERT_EQ(data.examples.size(), 2u);
  EXPECT_EQ(data.lines, (std::vector<size_t>{2, 2}));
  EXPECT_NE(learnt(data.examples[0]).find("animal"), std::string::npos) << learnt(data.examples[0]);
  EXPECT_NE(learnt(data.examples[1]).find("stone"), std::string::npos) << learnt(data.examples[1]);
  EXPECT_EQ(learnt(data.examples[0]).find("dog"), std::string::npos);
}

TEST_F(TrainingDataTest, AQuestionAndItsAnswerNeedNoJson) {
  const TrainingData data = read("What is a dog? => An animal. => Really.\r\n", false);
  const TrainingData json = read(R"({"prompt": "What is a dog?", "completion": "An animal. => Really."})", false);
  ASSERT_EQ(data.faults, std::vector<std::string>());
  EXPECT_EQ(data.examples.at(0).tokens, json.examples.at(0).tokens);
  EXPECT_EQ(data.examples.at(0).is_target, json.examples.at(0).is_target);
  EXPECT_EQ(read("a dog\n=> An animal.\nWhat?=>\n[1]\n\xff => a", false).faults,
            (std::vector<std::string>{
                "line 1: is neither JSON nor a question => answer: want one of both",
                "line 2: has no text on one side of =>: want a question and an answer",
                "line 3: has no text on one side of =>: want a question and an answer",
                "line 4: found none of messages, prompt with completion, and text: want one of them",
                "line 5: is not UTF-8: want text",
            }));
}

// Of a conversation of two turns, as the templates of the families ask for its answers: what is read and what is
// learnt.
std::vector<std::string> learnt_by(const std::string& folder) {
  const Model model =
      unwrap(resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint(cat(SLUICE_TEST_DATA, "/", folder))))));
  const TextParts text = unwrap(open_text(model));
  const std::string turn = R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "\n Abc "})";
  const TrainingData data =
      read_training_data(cat(R"({"messages": [)", turn, ", ", turn, "]}"), text, {.max_tokens = 200});
  EXPECT_EQ(data.faults, std::vector<std::string>());
  std::vector<std::string> all;
  for (const TrainSequence& one : data.examples) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < one.tokens.size(); ++i) {
      if (i > 0 && one.is_target[i] != one.is_target[i - 1]) ids.push_back(text.tokenizer.encode("|").front());
      ids.push_back(one.tokens[i]);
    }
    all.push_back(text.tokenizer.decode(ids));
  }
  return all;
}

// Gemma 4's larger models ask for an answer behind an empty thought that turns before have not. Their examples were
// refused.
TEST_F(TrainingDataTest, AnAnswerIsLearntBehindThePromptThatAsksForIt) {
  EXPECT_EQ(learnt_by("gemma4_dense"),
            (std::vector<std::string>{
                "<bos><|turn>user\nQ<turn|>\n<|turn>model\n<|channel>thought\n<channel|>|Abc<turn|>|\n",
                "<bos><|turn>user\nQ<turn|>\n<|turn>model\nAbc<turn|>\n<|turn>user\nQ<turn|>\n<|turn>model\n"
                "<|channel>thought\n<channel|>|Abc<turn|>|\n",
            }));
  EXPECT_EQ(learnt_by("qwen3_5_moe"),
            (std::vector<std::string>{
                "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n<think>\n|\n</think>\n\nAbc<|im_end|>|\n",
                "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nAbc<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
                "<|im_start|>assistant\n<think>\n|\n</think>\n\nAbc<|im_end|>|\n",
            }));
  EXPECT_EQ(learnt_by("deepseek_v3").size(), 1u) << "its template changes nothing";
}

TEST_F(TrainingDataTest, AllFormsOfAPairAreTheSame) {
  const TrainingData strings = read(kStrings, true);
  const std::string question = R"({"role": "user", "content": "What is a dog?"})";
  const std::string animal = R"({"role": "assistant", "content": "An animal."})";
  const std::string stone = R"({"role": "assistant", "content": "A stone."})";
  for (const std::string& line :
       {cat(R"({"prompt": [)", question, R"(], "chosen": [)", animal, R"(], "rejected": [)", stone, "]}"),
        cat(R"({"messages": [)", question, R"(], "chosen": "An animal.", "rejected": [)", stone, "]}"),
        cat(R"({"chosen": [)", question, ", ", animal, R"(], "rejected": [)", question, ", ", stone, "]}")}) {
    SCOPED_TRACE(line);
    const TrainingData data = read(line, true);
    ASSERT_EQ(data.faults, std::vector<std::string>());
    ASSERT_EQ(data.examples.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(data.examples[i].tokens, strings.examples[i].tokens);
      EXPECT_EQ(data.examples[i].is_target, strings.examples[i].is_target);
    }
  }
}

TEST_F(TrainingDataTest, AChosenAnswerIsLearntAsACompletionIs) {
  const TrainingData pair = read(kStrings, true);
  const TrainingData one = read(R"({"prompt": "What is a dog?", "completion": "An animal."})", false);
  EXPECT_EQ(one.examples.at(0).tokens, pair.examples.at(0).tokens);
  EXPECT_EQ(one.examples.at(0).is_target, pair.examples.at(0).is_target);
}

TEST_F(TrainingDataTest, LinesThatAreNoPairAreNamed) {
  const TrainingData data = read(
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
      "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": 3}\n"
      "{\"chosen\": [], \"rejected\": []}\n",
      true);
  EXPECT_EQ(data.faults, (std::vector<std::string>{
                             "line 1: has no chosen and rejected answer: want both",
                             "line 2: a prompt or an answer is neither a string nor messages: want one of both",
                             "line 3: has no token to learn: want an answer"}));
  EXPECT_TRUE(data.examples.empty());
}

}  // namespace
}  // namespace sluice

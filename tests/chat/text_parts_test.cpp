#include "chat/text_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/files/file.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kData = SLUICE_TEST_DATA;

Model model_at(const std::string& path) {
  return unwrap(resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint(path)))));
}

// The chat case of a golden: rendering and ids as transformers made them.
void expect_golden_chat(const TextParts& parts, const std::string& folder) {
  const std::string text = *read_file(join_path(folder, "golden.json"), 1u << 28);
  const Json golden = *parse_json(text, "golden.json");
  int cases = 0;
  for (const Json& one : golden.find("cases")->as_array()) {
    if (one.find("kind")->as_string() != "chat") continue;
    ChatInput input{.messages = *one.find("messages"), .tools = {}, .special_tokens = parts.special_tokens};
    if (const Json* arguments = one.find("template_kwargs")) input.extra = *arguments;
    const Result<std::string> rendered = parts.chat->render(input);
    ASSERT_TRUE(rendered) << rendered.error().text;
    EXPECT_EQ(*rendered, one.find("text")->as_string());
    std::vector<int32_t> want;
    for (const Json& id : one.find("input_ids")->as_array()) want.push_back(static_cast<int32_t>(id.as_integer()));
    EXPECT_EQ(parts.tokenizer.encode(*rendered), want);
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

TEST(TextParts, AHuggingFaceDirectoryGivesTheGoldensTextAndIds) {
  for (const char* name : {"gemma4_dense", "gemma4_moe"}) {
    const std::string folder = join_path(kData, name);
    const Result<TextParts> parts = open_text(model_at(folder));
    ASSERT_TRUE(parts) << parts.error().text;
    EXPECT_EQ(parts->chat_name, "chat_template.jinja");
    EXPECT_EQ(parts->dialect->name, "gemma4");
    EXPECT_THAT(parts->ends, ElementsAre(1, 9, 16)) << "<eos>, <|tool_response>, <turn|>";
    expect_golden_chat(*parts, folder);
  }
}

TEST(TextParts, AGgufFileGivesTheSame) {
  const Result<TextParts> parts = open_text(model_at(join_path(kData, "peer/gemma4_moe-bf16.gguf")));
  ASSERT_TRUE(parts) << parts.error().text;
  EXPECT_THAT(parts->ends, ElementsAre(1, 9, 16));
  ASSERT_TRUE(parts->chat.has_value());
  expect_golden_chat(*parts, join_path(kData, "gemma4_moe"));
}

TEST(TextParts, TheUsersTemplateWins) {
  const std::string path = testing::TempDir() + "text_parts_test.jinja";
  std::ofstream(path) << "{{ bos_token }}{{ messages[0].content }}!";
  const Model model = model_at(join_path(kData, "gemma4_moe"));
  const Result<TextParts> parts = open_text(model, {.chat_template_path = path});
  ASSERT_TRUE(parts) << parts.error().text;
  Json message = Json::Object{{"role", "user"}, {"content", "hello"}};
  const Result<std::string> text =
      parts->chat->render({.messages = Json::Array{message}, .tools = {}, .special_tokens = parts->special_tokens});
  EXPECT_EQ(*text, "<bos>hello!");
  std::ofstream(path) << "{% if %}";
  EXPECT_THAT(open_text(model, {.chat_template_path = path}).error().text, HasSubstr(path));
  std::remove(path.c_str());
  EXPECT_THAT(open_text(model, {.chat_template_path = path}).error().text, HasSubstr(path));
}

// A copy of the model without some of its files.
class Stripped {
 public:
  explicit Stripped(const std::vector<std::string>& without) : folder_(testing::TempDir() + "text_parts_stripped") {
    ::system(cat("rm -rf '", folder_, "' && cp -r '", kData, "/gemma4_moe' '", folder_, "'").c_str());
    for (const std::string& file : without) std::remove(join_path(folder_, file).c_str());
  }
  ~Stripped() { ::system(cat("rm -rf '", folder_, "'").c_str()); }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

TEST(TextParts, WithoutATemplateTheFamilysOwnIsUsed) {
  const Stripped stripped({"chat_template.jinja"});
  const Result<TextParts> parts = open_text(model_at(stripped.folder()));
  ASSERT_TRUE(parts) << parts.error().text;
  EXPECT_EQ(parts->chat_name, "built-in template of gemma4");
  expect_golden_chat(*parts, join_path(kData, "gemma4_moe"));
}

TEST(TextParts, AMissingTokenizerIsOneSentence) {
  const Stripped stripped({"tokenizer.json"});
  const Result<TextParts> parts = open_text(model_at(stripped.folder()));
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().text, cat(stripped.folder(), ": no tokenizer.json: want the model's tokenizer beside it"));
}

}  // namespace
}  // namespace sluice

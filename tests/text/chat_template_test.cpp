#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "tests/small_models.h"
#include "tests/text/vocabularies.h"
#include "text/dialects/built_in.h"

namespace sluice {
namespace {

std::string read_text(const std::string& path) {
  const auto text = read_file(std::string(SLUICE_TEST_DATA) + "/" + path, 1u << 24);
  EXPECT_TRUE(text.ok()) << path;
  return text ? *text : "";
}

Json parsed(std::string_view text) {
  auto json = parse_json(text, "test");
  EXPECT_TRUE(json.ok()) << text;
  return json ? *std::move(json) : Json();
}

ChatTemplate template_of(std::string_view text) {
  auto chat = ChatTemplate::parse(text, "chat.jinja");
  EXPECT_TRUE(chat.ok()) << chat.error().text;
  return *std::move(chat);
}

std::string outcome(const Result<std::string>& result) { return result ? *result : "error: " + result.error().text; }

// The special tokens of tokenizer_config.json: strings, or objects with "content".
std::vector<std::pair<std::string, std::string>> special_tokens(const std::string& model) {
  std::vector<std::pair<std::string, std::string>> out;
  const Json config = parsed(read_text(model + "/tokenizer_config.json"));
  for (const auto& [name, value] : config.as_object()) {
    if (name.size() < 6 || name.substr(name.size() - 6) != "_token") continue;
    const Json* content = value.is_string() ? &value : value.find("content");
    if (content != nullptr) out.emplace_back(name, content->as_string());
  }
  return out;
}

// A conversation of tokenizer_vectors.json or a golden: the arguments of apply_chat_template.
ChatInput input_of(const Json& chat, const std::string& model) {
  ChatInput input;
  input.messages = *chat.find("messages");
  if (const Json* tools = chat.find("tools")) input.tools = *tools;
  if (const Json* prompt = chat.find("add_generation_prompt")) input.add_generation_prompt = prompt->as_bool();
  if (const Json* thinking = chat.find("enable_thinking")) input.extra.add("enable_thinking", *thinking);
  input.special_tokens = special_tokens(model);
  return input;
}

void expect_vectors(const std::string& vectors, const std::string& model, const ChatTemplate& chat) {
  const Json document = parsed(read_text(vectors));
  ASSERT_EQ(document.find("chats")->as_array().size(), 6u);
  for (const Json& entry : document.find("chats")->as_array())
    EXPECT_EQ(outcome(chat.render(input_of(entry, model))), entry.find("rendered")->as_string());
}

class ReferenceChats : public testing::TestWithParam<SmallModel> {};

TEST_P(ReferenceChats, RenderAsTransformersDoes) {
  const std::string model = GetParam().name;
  expect_vectors(GetParam().chat, model, template_of(read_text(model + "/chat_template.jinja")));
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceChats, testing::ValuesIn(small_models_with_chats()),
                         [](const testing::TestParamInfo<SmallModel>& model) { return model.param.name; });

const auto kNoWeights = [](std::string_view) { return false; };

// The built-in template that Sluice takes for the model's vocabulary; the demo is the one with per-layer embeddings.
BuiltInTemplate own_template(const std::string& model) {
  auto found =
      built_in_template(Tokenizer(test::model_vocabulary(model)), [&](std::string_view) { return model == "gemma4"; });
  EXPECT_TRUE(found) << model;
  return found ? *std::move(found) : BuiltInTemplate{};
}

TEST_P(ReferenceChats, RenderTheSameWithTheBuiltInTemplate) {
  expect_vectors(GetParam().chat, GetParam().name, template_of(own_template(GetParam().name).text));
}

TEST(BuiltInTemplate, IsChosenByTheVocabularysTurnMarkers) {
  EXPECT_EQ(own_template("gemma4_dense").family, "gemma4");
  EXPECT_EQ(own_template("qwen3_5").family, "qwen3_5");
  EXPECT_EQ(own_template("deepseek_v3").family, "deepseek_v3");
  GgufVocabulary gguf = test::gguf_of("gpt2", "qwen2", {"a", "<|im_start|>", "<|im_end|>"});
  const auto old_qwen = built_in_template(Tokenizer(*vocabulary_from_gguf(gguf)), kNoWeights);
  const ChatInput hi = input_of(parsed(R"({"messages": [{"role": "user", "content": "Hi"}]})"), "qwen3_5");
  EXPECT_EQ(outcome(template_of(old_qwen->text).render(hi)), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  gguf.tokens.resize(1);
  EXPECT_FALSE(built_in_template(Tokenizer(*vocabulary_from_gguf(gguf)), kNoWeights));
}

// The branch of DeepSeek-V3.1's own template, which reads "thinking" where other templates read "enable_thinking".
TEST(ChatTemplate, ThinkingIsSetUnderBothItsNames) {
  const ChatTemplate chat = template_of(
      "{% if not thinking is defined %}{% set thinking = false %}{% endif %}"
      "{% for message in messages %}{{ '<｜User｜>' + message['content'] }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}"
      "{% if not thinking %}{{ '</think>' }}{% else %}{{ '<think>' }}{% endif %}{% endif %}");
  const auto rendered = [](const ChatTemplate& of, Json extra) {
    ChatInput input;
    input.messages = parsed(R"([{"role": "user", "content": "Hi"}])");
    input.extra = std::move(extra);
    return outcome(of.render(input));
  };
  EXPECT_EQ(rendered(chat, Json()), "<｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_EQ(rendered(chat, parsed(R"({"enable_thinking": true})")), "<｜User｜>Hi<｜Assistant｜><think>");
  EXPECT_EQ(rendered(chat, parsed(R"({"enable_thinking": false})")), "<｜User｜>Hi<｜Assistant｜></think>");
  const ChatTemplate other = template_of("{{ thinking is defined }} {{ enable_thinking }}");
  EXPECT_EQ(rendered(other, Json()), "False ");
  EXPECT_EQ(rendered(other, parsed(R"({"thinking": true})")), "True True");
  EXPECT_EQ(rendered(other, parsed(R"({"thinking": true, "enable_thinking": false})")), "True False");
}

// Cases that the six reference conversations do not have.
constexpr std::string_view kOddChats[] = {
    R"({"messages": [{"role": "developer", "content": "Dev."}, {"role": "user", "content": "Hi"}]})",
    R"({"messages": [{"role": "user", "content": [{"type": "text", "text": " See "}, {"type": "image"},
        {"type": "audio"}, {"type": "video"}, {"type": "other"}, {"type": "text", "text": "?"}]}]})",
    R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "S"}]}, {"role": "user", "content": "a"}]})",
    R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "<|channel>thought\nhm\n<channel|> b <|channel>thought\nx<channel|>c "},
        {"role": "user", "content": "plain <|channel>x<channel|> user text"}], "enable_thinking": true})",
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [
        {"function": {"name": "f", "arguments": {"z": [1, "b", {"y": null}], "A": true, "b": 1.5, "e": {}, "l": []}}},
        {"function": {"name": "g", "arguments": {}}}]},
        {"role": "tool", "content": {"ok": false}}, {"role": "tool", "name": "g", "content": [1, 2]},
        {"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}],
        "tools": [{"function": {"name": "f", "description": "F"}}, {"function": {"name": "g", "description": "",
        "parameters": {"type": "object", "B": 1, "a": {"enum": ["x", 2]}}}}], "enable_thinking": false})",
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "enable_thinking": true})",
    R"({"messages": [{"role": "user", "content": ""}], "add_generation_prompt": false, "tools": []})",
};

constexpr std::string_view kOddThinkChats[] = {
    R"({"messages": [{"role": "system", "content": " S "}, {"role": "user", "content": " a "},
        {"role": "assistant", "content": "<think>\n\nhm\n</think>\n\nb"}, {"role": "user", "content": "c"},
        {"role": "assistant", "content": "<think>hm</think>d"}], "add_generation_prompt": false})",
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [
        {"function": {"name": "f", "arguments": {"z": [1, "b", {"y": null}], "s": "t\nu", "b": 1.5, "e": {}}}},
        {"function": {"name": "g", "arguments": {}}}]},
        {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}],
        "tools": [{"function": {"name": "f", "description": "\u00fc <F>"}}], "enable_thinking": false})",
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "look", "tool_calls": [
        {"function": {"name": "g", "arguments": {"x": "y"}}}]}, {"role": "tool", "content": "1"}],
        "enable_thinking": true})",
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "enable_thinking": true})",
    R"({"messages": [{"role": "user", "content": ""}], "tools": []})",
};

void expect_own_template_agrees(const std::string& model, std::span<const std::string_view> chats) {
  const ChatTemplate published = template_of(read_text(model + "/chat_template.jinja"));
  const ChatTemplate own = template_of(own_template(model).text);
  for (const std::string_view chat : chats) {
    const ChatInput input = input_of(parsed(chat), model);
    const Result<std::string> want = published.render(input);
    ASSERT_TRUE(want.ok()) << want.error().text;
    EXPECT_EQ(outcome(own.render(input)), *want) << chat;
  }
}

TEST(BuiltInTemplate, AgreesWithThePublishedOnesOnOddChats) {
  for (const char* model : {"gemma4", "gemma4_dense"}) expect_own_template_agrees(model, kOddChats);
  for (const char* model : {"qwen3_5", "deepseek_v3"}) expect_own_template_agrees(model, kOddThinkChats);
}

TEST(ChatTemplate, GivesTheTemplateItsVariables) {
  const ChatTemplate chat = template_of(
      "{{ bos_token }}{{ messages[0].content }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}"
      "{{ depth }}{{ eos_token is defined }}");
  ChatInput input{.messages = parsed(R"([{"role": "user", "content": "Hi"}])"),
                  .tools = Json(),
                  .special_tokens = {{"bos_token", "<s>"}}};
  input.extra.add("depth", 3);
  EXPECT_EQ(outcome(chat.render(input)), "<s>HiTrueTrueTrue3False");
}

TEST(ChatTemplate, ShowsTheTimeItIsGiven) {
  const ChatTemplate chat = template_of("{{ strftime_now('%d %b %Y') }}");
  std::tm now{};
  now.tm_year = 124, now.tm_mon = 1, now.tm_mday = 29;
  EXPECT_EQ(outcome(chat.render({.messages = Json(Json::Array{}), .tools = Json(), .now = now})), "29 Feb 2024");
  const Result<std::string> today = chat.render({.messages = Json(Json::Array{}), .tools = Json()});
  EXPECT_EQ(outcome(today).size(), 11u);
}

TEST(ChatTemplate, MessagesThatAreNoArrayAreRefused) {
  EXPECT_EQ(outcome(template_of("x").render({.messages = Json("Hi"), .tools = Json()})),
            "error: chat: the messages are no array: want an array of objects with role and content");
}

TEST(ChatTemplate, MessagesNestedTooDeepAreRefused) {
  Json deep = "x";
  for (int i = 0; i < 300; ++i) deep = Json(Json::Array{deep});
  EXPECT_EQ(outcome(template_of("x").render({.messages = deep, .tools = Json()})),
            "error: a template's input is nested deeper than 200");
}

TEST(ChatTemplate, ABrokenTemplateNamesItsFileAndLine) {
  const auto broken = ChatTemplate::parse("{{ bos_token }}\n{% for m in messages %}", "chat_template.jinja");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().text, "chat_template.jinja:2: the block \"for\" is not closed: want {% endfor %}");
}

TEST(NamedTemplates, AreAStringOrAList) {
  const auto one = named_templates(Json("text"), "tokenizer_config.json");
  ASSERT_TRUE(one.ok());
  ASSERT_EQ((*one).size(), 1u);
  EXPECT_EQ((*one)[0].name, "default");
  const auto two = named_templates(
      parsed(R"([{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}])"), "c.json");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)[1].text, "b");
}

TEST(NamedTemplates, AnythingElseIsRefused) {
  for (const char* text : {"5", "{}", "[{}]", "[5]", R"([{"name": 1, "template": "a"}])"}) {
    const auto wrong = named_templates(parsed(text), "c.json");
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_EQ(wrong.error().text, "c.json: chat_template is no template: want a string or a list of {name, template}");
  }
}

TEST(NamedTemplates, ToolsChooseToolUse) {
  const std::vector<NamedTemplate> both = {{"tool_use", "t"}, {"default", "d"}};
  EXPECT_EQ(choose_template(both, true)->text, "t");
  EXPECT_EQ(choose_template(both, false)->text, "d");
  EXPECT_EQ(choose_template({both.data() + 1, 1}, true)->text, "d");
  EXPECT_EQ(choose_template({both.data(), 1}, false)->text, "t");
  const std::vector<NamedTemplate> others = {{"rag", "r"}, {"code", "c"}};
  EXPECT_EQ(choose_template(others, true), nullptr);
  EXPECT_EQ(choose_template({}, false), nullptr);
}

}  // namespace
}  // namespace sluice

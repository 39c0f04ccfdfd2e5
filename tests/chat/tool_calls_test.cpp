// The events of a turn whose prompt has tools. A scripted engine answers, because no model of the tests calls tools.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "chat/chat_session.h"
#include "chat/open_model.h"
#include "chat/text_parts.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

// Answers every request with the given tokens, `at_once` of them a step.
class ScriptedEngine : public Engine {
 public:
  ScriptedEngine(std::vector<int32_t> script, size_t at_once) : script_(std::move(script)), at_once_(at_once) {}

  Result<RequestId> submit(Request /*request*/) override { return RequestId{1}; }
  StepState step() override { return StepState::progressed; }
  Result<Progress> collect(RequestId /*id*/) override {
    Progress progress;
    progress.sequence = 1;
    for (size_t i = 0; i < at_once_ && next_ < script_.size(); ++i) {
      SampleResult token{};
      token.token = script_[next_++];
      progress.tokens.push_back(token);
    }
    if (next_ == script_.size()) progress.finish = Finish::stop_token;
    return progress;
  }
  uint32_t context() const override { return 4096; }

  Status give_media(MediaInput /*input*/) override { return {}; }
  void wait() override {}
  void cancel(RequestId /*id*/) override {}
  Result<SequenceId> fork(SequenceId sequence) override { return sequence; }
  Status truncate(SequenceId /*sequence*/, size_t /*tokens*/) override { return {}; }
  Status close(SequenceId /*sequence*/) override { return {}; }
  Result<History> history(SequenceId /*sequence*/) const override { return History{}; }
  Status save(SequenceId /*sequence*/, const std::string& /*path*/) override { return {}; }
  Result<bool> save_without_waiting(SequenceId /*sequence*/, const std::string& /*path*/) override { return true; }
  Result<SequenceId> load(const std::string& /*path*/, std::string* /*note*/) override { return SequenceId{1}; }
  void keep_state(SequenceId /*sequence*/) override {}
  EngineStats stats() const override { return {}; }
  std::optional<ExpertStats> expert_stats() const override { return std::nullopt; }
  std::optional<RowStats> row_stats() const override { return std::nullopt; }
  std::vector<HotExpert> hot_experts() const override { return {}; }
  bool warm_up() override { return false; }
  std::optional<DispatchCounts> dispatch_counts() const override { return std::nullopt; }
  std::string numerics_id() const override { return "scripted"; }

 private:
  std::vector<int32_t> script_;
  size_t at_once_, next_ = 0;
};

const Json kMessages = Json::Array{Json::Object{{"role", "user"}, {"content", "What time is it?"}}};
const Json kTools = *parse_json(
    R"([{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])",
    "tools");

// The events of a turn that the scripted engine answers.
std::vector<TurnEvent> events_of(const TextParts& text, const std::string& answer, const Json& variables,
                                 const TurnSettings& settings, size_t at_once) {
  ScriptedEngine engine(text.tokenizer.encode(answer), at_once);
  ChatSession session(text, engine, *text.dialect);
  EXPECT_TRUE(session.begin(unwrap(session.render(kMessages, variables)), settings));
  std::vector<TurnEvent> events;
  while (session.running()) {
    EXPECT_TRUE(session.step());
    for (TurnEvent& event : session.take_events()) events.push_back(std::move(event));
  }
  return events;
}

// Text as it is, a thought in braces, calls in brackets.
std::string answered(const TextParts& text, const std::string& answer, const Json& variables, size_t at_once) {
  TurnSettings settings;
  settings.stops = {"STOP"};
  std::string out;
  bool thinks = false;
  for (const TurnEvent& event : events_of(text, answer, variables, settings, at_once)) {
    const bool thought = std::holds_alternative<ThinkingEvent>(event);
    if (thought != thinks) out += thought ? '{' : '}';
    thinks = thought;
    if (const auto* piece = std::get_if<TextEvent>(&event)) out += piece->text;
    if (const auto* piece = std::get_if<ThinkingEvent>(&event)) out += piece->text;
    if (const auto* called = std::get_if<ToolCallEvent>(&event))
      out += cat('[', called->call.name, ' ', write_json(called->call.arguments), ']');
  }
  return out;
}

void expect_answered(const char* model, const std::string& answer, const Json& variables, const std::string& want) {
  const Model opened = unwrap(open_model(cat(SLUICE_TEST_DATA, '/', model)));
  const TextParts text = unwrap(open_text(opened));
  for (const size_t at_once : {1, 3, 1000}) EXPECT_EQ(answered(text, answer, variables, at_once), want) << model;
}

const Json kWithTools = Json::Object{{"tools", kTools}, {"enable_thinking", false}};
const Json kWithout = Json::Object{{"enable_thinking", false}};

TEST(TurnWithTools, CallsAreEventsOfTheirOwn) {
  expect_answered("gemma4_dense", "So. <|tool_call>call:now{}<tool_call|><|tool_call>call:now{zone:3}<tool_call|>",
                  kWithTools, "So.[now {}][now {\"zone\": 3}]");
  expect_answered("qwen3_5_moe", "So.\n\n<tool_call>\n<function=now>\n</function>\n</tool_call>", kWithTools,
                  "So.[now {}]");
  expect_answered("deepseek_v3",
                  "So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                  "<｜tool▁calls▁end｜>",
                  kWithTools, "So.[now {}]");
}

// A stop string counts in the text alone.
TEST(TurnWithTools, StopStringsDoNotCutCalls) {
  expect_answered("qwen3_5_moe",
                  "<tool_call>\n<function=now>\n<parameter=zone>\nSTOP\n</parameter>\n</function>\n</tool_call>"
                  "\nST<tool_call>\n<function=now>\n</function>\n</tool_call> Now STOP here",
                  kWithTools, "[now {\"zone\": \"STOP\"}]\nST[now {}] Now ");
}

TEST(TurnWithTools, AThoughtEndsWhereACallBegins) {
  expect_answered("gemma4_dense", "<|channel>thought\nHm<|tool_call>call:now{}<tool_call|>", kWithTools,
                  "{Hm}[now {}]");
}

TEST(TurnWithTools, WithoutToolsAllIsText) {
  expect_answered("qwen3_5_moe", "<tool_call>\n<function=now>\n</function>\n</tool_call>", kWithout,
                  "<tool_call>\n<function=now>\n</function>\n</tool_call>");
}

TEST(TurnWithTools, TheLastCallThatIsWantedEndsTheAnswer) {
  const Model model = unwrap(open_model(SLUICE_TEST_DATA "/gemma4_dense"));
  const TextParts text = unwrap(open_text(model));
  const std::string call = "<|tool_call>call:now{}<tool_call|>";
  TurnSettings settings;
  settings.max_calls = 1;
  for (const size_t at_once : {1, 1000}) {
    const std::vector<TurnEvent> events = events_of(text, "So." + call + call + " Done", kWithTools, settings, at_once);
    const auto is_call = [](const TurnEvent& event) { return std::holds_alternative<ToolCallEvent>(event); };
    EXPECT_EQ(std::ranges::count_if(events, is_call), 1);
    EXPECT_TRUE(is_call(events[events.size() - 2]));
    EXPECT_EQ(std::get<DoneEvent>(events.back()).end, TurnEnd::stop);
  }
}

TEST(TurnEvents, TheEndCountsThinkingAndNamesTheStopString) {
  const Model model = unwrap(open_model(SLUICE_TEST_DATA "/gemma4_dense"));
  const TextParts text = unwrap(open_text(model));
  const std::string thought = "<|channel>thought\nHm<channel|>";
  TurnSettings settings;
  settings.stops = {"never", "STOP"};
  const std::vector<TurnEvent> events = events_of(text, thought + "Now STOP here", kWithout, settings, 1);
  const DoneEvent& done = std::get<DoneEvent>(events.back());
  EXPECT_EQ(done.usage.thinking_tokens, text.tokenizer.encode(thought).size());
  EXPECT_EQ(done.stop, 1u);
  EXPECT_FALSE(std::get<DoneEvent>(events_of(text, "Now", kWithout, settings, 1).back()).stop);
}

TEST(TurnWithTools, ToolsThatAreNoListAreRefused) {
  const Model model = unwrap(open_model(SLUICE_TEST_DATA "/gemma4_dense"));
  const TextParts text = unwrap(open_text(model));
  const Result<ChatPrompt> prompt = render_chat(text, kMessages, Json::Object{{"tools", "now"}});
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().text, "chat: the tools are no array: want an array of objects, each with a function");
}

}  // namespace
}  // namespace sluice

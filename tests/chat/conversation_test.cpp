// Conversations answered, taken back, saved and loaded: what each turn computes, what its events are, and what is
// refused.
#include "chat/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/text.h"
#include "chat/conversation_file.h"
#include "chat/open_model.h"
#include "device/cpu/cpu.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kDemo = "assets/demo-gemma4-q8_0.gguf";
const std::string kMoe = SLUICE_TEST_DATA "/gemma4_moe";

// Deleted at the end of a test.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(std::filesystem::path(testing::TempDir()) / "sluice_conversation_test") {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Changes what a conversation begins with.
using Change = std::function<void(ConversationSettings&)>;
const Change kPlain = [](ConversationSettings&) {};
const Change kRaw = [](ConversationSettings& settings) { settings.raw = true; };
const std::vector<Change> kPlainAndRaw = {kPlain, kRaw};

// A model opened on the processor, always the likeliest tokens.
class Talk {
 public:
  explicit Talk(const std::string& path = kDemo, const Change& change = kPlain) {
    const auto options = [](const ChatModel&) { return Result<EngineOptions>(EngineOptions{.context = 512}); };
    model_ = unwrap(open_chat_model({.files = files_at(path), .options = options}, *device_, budget_,
                                    /*bounds=*/{}));
    ConversationSettings settings;
    settings.turn = {.sampling = model_->settings.sampling, .max_tokens = 8};
    settings.turn.sampling.temperature = 0;
    change(settings);
    conversation_ = std::make_unique<Conversation>(model_->text, *model_->engine, settings);
  }
  explicit Talk(const Change& change) : Talk(kDemo, change) {}
  Conversation& operator*() { return *conversation_; }
  Conversation* operator->() { return conversation_.get(); }
  const Model& model() const { return model_->model; }
  const ChatModel& opened() const { return *model_; }

  struct Turn {
    std::string answer;
    uint32_t prompt = 0, reused = 0;
    bool operator==(const Turn&) const = default;
  };
  Turn ask(const std::string& question) {
    const Result<Reply> reply = conversation_->ask(question, {});
    EXPECT_TRUE(reply) << reply.error().text;
    return reply ? Turn{reply->answer, reply->usage.prompt_tokens, reply->usage.reused_tokens} : Turn{};
  }
  Status save(const std::string& path) { return save_conversation(*conversation_, model(), "demo", path); }
  std::string load(const std::string& path) {
    std::string note;
    const Status loaded = load_conversation(*conversation_, model(), path, &note);
    return loaded ? note : "refused: " + loaded.error().text;
  }

 private:
  ThreadPool pool_{1};
  std::unique_ptr<Device> device_ = make_cpu_device({.pool = &pool_});
  Budget budget_;
  std::unique_ptr<ChatModel> model_;
  std::unique_ptr<Conversation> conversation_;
};

// All that a turn's events say but its seconds.
struct Heard {
  std::string text, thinking;
  std::optional<TurnEnd> end;
  Usage usage;
  size_t pieces = 0;

  void hear(const TurnEvent& event) {
    EXPECT_FALSE(end) << "nothing follows the end";
    if (const auto* piece = std::get_if<TextEvent>(&event)) text += piece->text;
    if (const auto* piece = std::get_if<ThinkingEvent>(&event)) thinking += piece->text;
    if (const auto* done = std::get_if<DoneEvent>(&event)) {
      end = done->end;
      usage = done->usage;
    }
    ++pieces;
  }
  void expect_same(const Heard& other) const {
    EXPECT_EQ(text, other.text);
    EXPECT_EQ(thinking, other.thinking);
    EXPECT_EQ(end, other.end);
    EXPECT_EQ(pieces, other.pieces);
    EXPECT_EQ(usage.prompt_tokens, other.usage.prompt_tokens);
    EXPECT_EQ(usage.reused_tokens, other.usage.reused_tokens);
    EXPECT_EQ(usage.computed_tokens, other.usage.computed_tokens);
    EXPECT_EQ(usage.answer_tokens, other.usage.answer_tokens);
  }
};

Heard heard_waiting(Conversation& conversation, const std::string& question) {
  Heard heard;
  const Result<Reply> reply = conversation.ask(question, {.event = [&](const TurnEvent& event) { heard.hear(event); }});
  EXPECT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->answer, heard.text);
  EXPECT_EQ(reply->thinking, heard.thinking);
  return heard;
}

Heard heard_stepping(Conversation& conversation, const std::string& question) {
  Heard heard;
  EXPECT_TRUE(conversation.begin(question));
  while (conversation.running()) {
    EXPECT_TRUE(conversation.step());
    for (const TurnEvent& event : conversation.take_events()) heard.hear(event);
  }
  return heard;
}

void expect_same_history(const Conversation& a, const Conversation& b) {
  EXPECT_EQ(a.messages().size(), b.messages().size());
  for (size_t i = 0; i < std::min(a.messages().size(), b.messages().size()); ++i) {
    EXPECT_EQ(a.messages()[i].content, b.messages()[i].content);
    EXPECT_EQ(a.messages()[i].history, b.messages()[i].history);
  }
}

TEST(Conversation, SteppingGivesTheAnswerOfWaiting) {
  for (const Change& change : kPlainAndRaw) {
    Talk waits(change), steps(change);
    for (const char* question : {"What is a violin?", "And a cello?"}) {
      const Heard heard = heard_stepping(*steps, question);
      heard.expect_same(heard_waiting(*waits, question));
      EXPECT_FALSE(heard.text.empty());
      EXPECT_TRUE(heard.end);
    }
    expect_same_history(*waits, *steps);
    EXPECT_EQ(*waits->history(), *steps->history());
  }
}

TEST(Conversation, TwoOnOneEngineAreSteppedByTheirCaller) {
  Talk talk;
  const auto kept_apart = [&](const char* question) {
    Talk alone;
    return heard_waiting(*alone, question);
  };
  const ConversationSettings settings = talk->settings();
  Engine& engine = *talk.opened().engine;
  Conversation other(talk.opened().text, engine, settings);
  ASSERT_TRUE(talk->begin("What is a violin?"));
  ASSERT_TRUE(other.begin("What is a dog?"));
  Heard ours, theirs;
  while (talk->running() || other.running()) {
    engine.step();
    ASSERT_TRUE(talk->collect());
    ASSERT_TRUE(other.collect());
    for (const TurnEvent& event : talk->take_events()) ours.hear(event);
    for (const TurnEvent& event : other.take_events()) theirs.hear(event);
  }
  EXPECT_EQ(ours.text, kept_apart("What is a violin?").text);
  EXPECT_EQ(theirs.text, kept_apart("What is a dog?").text);
}

TEST(Conversation, ATurnMayBeCancelledAndTheNextGoesOn) {
  Talk talk;
  ASSERT_TRUE(talk->begin("What is a violin?"));
  EXPECT_EQ(talk->begin("And a cello?").error().text, "an answer is being made: want it to end first");
  while (talk->usage().answer_tokens < 3) ASSERT_TRUE(talk->step());
  talk->cancel();
  while (talk->running()) ASSERT_TRUE(talk->step());
  const std::vector<TurnEvent> events = talk->take_events();
  ASSERT_FALSE(events.empty());
  ASSERT_TRUE(std::holds_alternative<DoneEvent>(events.back()));
  EXPECT_EQ(std::get<DoneEvent>(events.back()).end, TurnEnd::cancelled);
  ASSERT_EQ(talk->messages().size(), 2u);
  EXPECT_GT(talk.ask("And a cello?").reused, 0u);
}

TEST(Conversation, AStopStringEndsTheEventsToo) {
  Talk plain;
  const std::string answer = plain.ask("What is a violin?").answer;
  const std::string stop = answer.substr(answer.size() / 2, 2);
  Talk talk([&](ConversationSettings& settings) { settings.turn.stops = {stop}; });
  const Heard heard = heard_stepping(*talk, "What is a violin?");
  EXPECT_EQ(heard.text, answer.substr(0, answer.find(stop)));
  EXPECT_EQ(heard.end, TurnEnd::stop);
}

TEST(Conversation, ARefusedTurnKeepsTheComputedState) {
  Talk talk;
  talk.ask("What is a violin?");
  std::string much;
  for (int i = 0; i < 600; ++i) much += "violin ";
  EXPECT_THAT(talk->begin(much).error().text, HasSubstr("want less than the context of 512"));
  EXPECT_EQ(talk->begin("\xff").error().text, "the prompt is not UTF-8: want text");
  EXPECT_EQ(talk->messages().size(), 2u);
  EXPECT_GT(talk.ask("And a cello?").reused, 0u);
}

TEST(Conversation, UndoLeavesWhatStoodBefore) {
  for (const Change& change : kPlainAndRaw) {
    Talk straight(change), detour(change);
    EXPECT_FALSE(detour->undo());
    straight.ask("What is a violin?");
    detour.ask("What is a violin?");
    detour.ask("What is a dog?");
    EXPECT_EQ(detour->undo().value().content, "What is a dog?");
    const Talk::Turn turn = detour.ask("And a cello?"), plain = straight.ask("And a cello?");
    EXPECT_EQ(turn.answer, plain.answer);
    EXPECT_EQ(turn.prompt, plain.prompt);
    EXPECT_GT(plain.reused, 0u);
    EXPECT_GE(turn.reused, plain.reused);  // the answer's last token may have been computed for the dog
    EXPECT_EQ(detour->undo().value().content, "And a cello?");
    EXPECT_EQ(detour->undo().value().content, "What is a violin?");
    EXPECT_TRUE(detour->messages().empty());
  }
}

TEST(Conversation, ALoadedConversationComputesOnlyNewTokens) {
  for (const Change& change : kPlainAndRaw) {
    const TemporaryFolder folder;
    const std::string file = folder.path("talk.json");
    Talk kept(change), saved(change), loaded(change);
    const std::string first =
        "What is a violin, and what is a bow, a string, a bridge, a peg, a scroll, a neck, a "
        "fingerboard, a tailpiece, a chin rest and a soundpost? "
        "What is wood, what is varnish, what is glue, and what is a workshop?";
    kept.ask(first);
    saved.ask(first);
    ASSERT_TRUE(saved.save(file));
    EXPECT_EQ(loaded.load(file), "");
    const Talk::Turn turn = loaded.ask("And a cello?"), plain = kept.ask("And a cello?");
    EXPECT_EQ(turn.answer, plain.answer);
    EXPECT_EQ(turn.prompt, plain.prompt);
    EXPECT_GE(plain.reused, 64u);
    EXPECT_EQ(turn.reused, plain.reused / 64 * 64);  // files hold whole pages
    EXPECT_EQ(loaded->undo().value().content, "And a cello?");
    EXPECT_EQ(loaded->undo().value().content, first);
  }
}

TEST(Conversation, TheFileHoldsMessagesAndSettings) {
  const TemporaryFolder folder;
  const std::string file = folder.path("talk.json");
  Talk talk([](ConversationSettings& settings) {
    SamplingSettings& sampling = settings.turn.sampling;
    sampling.temperature = 0.95f;
    sampling.top_k = 3;
    sampling.seed = 7;
    sampling.logit_bias = {{5, -std::numeric_limits<float>::infinity()}, {6, 1.5f}};
    settings.turn.stops = {"END"};
    settings.system = "Be brief.";
  });
  const std::string answer = talk.ask("What is a violin?").answer;
  ASSERT_TRUE(talk.save(file));
  const Result<Json> json = parse_json(*read_file(file, 1 << 20), file);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("system")->as_string(), "Be brief.");
  EXPECT_EQ(write_json(*json->find("stop")), R"(["END"])");
  EXPECT_EQ(write_json(*json->find("sampling")),
            R"({"temperature": 0.95, "top_p": 0.95, "min_p": 0.0, "repeat_penalty": 1.0, )"
            R"("presence_penalty": 0.0, "frequency_penalty": 0.0, "top_k": 3, "repeat_last_n": 64, "seed": 7, )"
            R"("logit_bias": [[5, "-inf"], [6, 1.5]]})");
  EXPECT_EQ(json->find("messages")->as_array()[1].find("content")->as_string(), answer);
  EXPECT_EQ(json->find("model")->find("digest")->as_string(), talk.model().digest());
  Talk other;
  EXPECT_EQ(other.load(file), "");
  EXPECT_EQ(other->system(), "Be brief.");
  EXPECT_EQ(other->settings().turn.sampling.seed, 7u);
  EXPECT_EQ(other->settings().turn.sampling.temperature, 0.95f);
  EXPECT_EQ(other->settings().turn.sampling.logit_bias, talk->settings().turn.sampling.logit_bias);
  EXPECT_EQ(other->settings().turn.stops, std::vector<std::string>{"END"});
}

TEST(Conversation, WhatCannotBeLoadedIsOneSentenceAndChangesNothing) {
  const TemporaryFolder folder;
  const std::string file = folder.path("talk.json"), bad = folder.path("bad.json");
  Talk talk;
  const Talk::Turn first = talk.ask("What is a violin?");
  ASSERT_TRUE(talk.save(file));
  const std::string good = *read_file(file, 1 << 20);
  const auto refusal = [&](const std::string& text) {
    EXPECT_TRUE(write_file(bad, text));
    return talk.load(bad);
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return refusal(text.replace(text.find(from), from.size(), to));
  };
  const std::string refused = "refused: " + bad;
  for (const size_t bytes : {size_t{0}, size_t{1}, good.size() / 2, good.size() - 3})
    EXPECT_THAT(refusal(good.substr(0, bytes)), StartsWith(refused)) << bytes;
  EXPECT_EQ(refusal("{}"), refused + ": no conversation: want a file that /save wrote");
  EXPECT_EQ(refusal("[1]"), refused + ": no conversation: want a file that /save wrote");
  EXPECT_EQ(changed("conversation\": 2", "conversation\": 1"), refused + ": is of version 1: want 2 or 3");
  EXPECT_EQ(changed("\"role\": \"user\"", "\"role\": \"robot\""),
            refused + ": message 0: role is missing or wrong: want user, assistant, system or tool");
  EXPECT_EQ(changed("\"system\": \"\"", "\"system\": 1"), refused + ": system is missing or wrong: want a text");
  EXPECT_EQ(changed("\"model\": {", "\"modem\": {"), refused + ": model is missing or wrong: want an object");
  EXPECT_EQ(changed("\"top_p\": 0.95", "\"top_p\": 2"), refused + ": top-p is 2: want a number from 0 to 1");
  EXPECT_EQ(changed("\"raw\": false", "\"raw\": true"), refused + ": was saved with --raw: want the chat begun so");
  EXPECT_EQ(changed(talk.model().digest(), "0123456789abcdef"),
            refused + ": was saved with demo, digest 0123456789ab: want that model (/model NAME)");
  EXPECT_EQ(talk.load(folder.path("none")),
            "refused: " + folder.path("none") + ": cannot open: no such file or directory");
  Talk moe(kMoe);
  EXPECT_THAT(moe.load(file), HasSubstr("was saved with demo, digest "));
  // The conversation goes on as it was.
  Talk straight;
  EXPECT_EQ(straight.ask("What is a violin?"), first);
  EXPECT_EQ(talk.ask("And a cello?"), straight.ask("And a cello?"));
}

TEST(Conversation, WithoutItsStateEverythingIsComputedAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.path("talk.json"), state = file + ".state";
  Talk talk, straight;
  talk.ask("What is a violin?");
  straight.ask("What is a violin?");
  ASSERT_TRUE(talk.save(file));
  const std::string whole = *read_file(state, 1 << 28);
  const Talk::Turn second = straight.ask("And a cello?");
  std::string damaged = whole;
  damaged[whole.size() / 2] ^= 1;
  for (const std::string& text : {std::string(), whole.substr(0, 100), damaged, std::string(64, 'x')}) {
    ASSERT_TRUE(write_file(state, text));
    Talk loaded;
    const std::string note = loaded.load(file);
    EXPECT_THAT(note, StartsWith(state));
    EXPECT_THAT(note, testing::EndsWith(": all is computed again"));
    const Talk::Turn turn = loaded.ask("And a cello?");
    EXPECT_EQ(turn.answer, second.answer);
    EXPECT_EQ(turn.reused, 0u);
  }
}

TEST(Conversation, AFullDiskIsOneSentence) {
  Talk talk;
  talk.ask("Hi");
  const Status saved = talk.save("/proc/none/talk.json");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().text, "/proc/none/talk.json.state: cannot create: no such file or directory");
}

// 0.1 s, in make test.
TEST(Conversation, CallsAndResultsReachTheTemplateAsTheServersDo) {
  const Json tools = unwrap(parse_json(R"([{"type": "function", "function": {"name": "now"}}])", "tools"));
  Talk talk([&](ConversationSettings& settings) { settings.tools = tools; });
  const ToolCall call{.name = "now", .arguments = Json::Object{{"zone", "east"}}};
  talk->replace(talk->settings(),
                {{.role = "user", .content = "Time?"}, {.role = "assistant", .content = "", .calls = {call, call}}});
  ASSERT_EQ(talk->open_calls(), 2u);
  talk->add_result({.role = "tool", .content = "noon <turn|>", .tool = "now"});
  ASSERT_EQ(talk->open_calls(), 1u);
  const Reply reply = unwrap(talk->ask({.role = "tool", .content = "one", .tool = "now"}, {}));
  EXPECT_EQ(talk->open_call(), nullptr);
  const Json messages = unwrap(parse_json(R"([{"role": "user", "content": "Time?"}, {"role": "assistant", "content": "",
      "tool_calls": [{"type": "function", "function": {"name": "now", "arguments": {"zone": "east"}}},
                     {"type": "function", "function": {"name": "now", "arguments": {"zone": "east"}}}]},
      {"role": "tool", "name": "now", "content": "noon <turn|>"}, {"role": "tool", "name": "now", "content": "one"}])",
                                          "messages"));
  const TextParts& text = talk.opened().text;
  const ChatPrompt prompt =
      unwrap(render_chat(text, unwrap(guard_messages(text, messages)), Json::Object{{"tools", tools}}));
  EXPECT_THAT(prompt.text, HasSubstr("noon"));
  EXPECT_EQ(reply.usage.prompt_tokens, prompt.ids.size());
}

}  // namespace
}  // namespace sluice

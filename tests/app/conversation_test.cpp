// Conversations taken back, saved and loaded, without a terminal: what each turn computes, and what is refused.
#include "chat/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "app/commands.h"
#include "app/run/chat_history.h"
#include "app/run/talker.h"
#include "base/files/file.h"
#include "base/text.h"
#include "chat/conversation_file.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kMoe = SLUICE_TEST_DATA "/gemma4_moe";

// A model opened as `sluice run` does.
class Talk {
 public:
  explicit Talk(const std::string& model = "demo", std::vector<std::string> words = {"--greedy"}) {
    words.insert(words.end(), {"--device", "cpu", "--threads", "1", "--max-tokens", "8", "--context", "512"});
    static const CommandSpec command = run_command();
    const Arguments arguments = *parse_arguments(command, words);
    machine_ = std::make_unique<Machine>(*open_machine(arguments));
    talker_ = *open_talker(*model_files(model), arguments, *machine_, console_);
    conversation_ = std::make_unique<Conversation>(talker_->text, *talker_->engine, talker_->settings);
  }
  Conversation& operator*() { return *conversation_; }
  Conversation* operator->() { return conversation_.get(); }
  const Model& model() const { return talker_->model; }

  struct Turn {
    std::string answer;
    uint32_t prompt = 0, reused = 0;
    bool operator==(const Turn&) const = default;
  };
  Turn ask(const std::string& question) {
    const Result<Reply> reply = conversation_->ask(question, {});
    EXPECT_TRUE(reply) << reply.error().text;
    return reply ? Turn{reply->answer, reply->run.prompt_tokens, reply->run.reused_tokens} : Turn{};
  }
  Status save(const std::string& path) { return save_conversation(*conversation_, model(), "demo", path); }
  std::string load(const std::string& path) {
    std::string note;
    const Status loaded = load_conversation(*conversation_, model(), path, &note);
    return loaded ? note : "refused: " + loaded.error().text;
  }

 private:
  Console console_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Talker> talker_;
  std::unique_ptr<Conversation> conversation_;
};

TEST(Conversation, UndoLeavesWhatStoodBefore) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--greedy"}, {"--greedy", "--raw"}}) {
    Talk straight("demo", words), detour("demo", words);
    EXPECT_EQ(detour->undo(), std::nullopt);
    straight.ask("What is a violin?");
    detour.ask("What is a violin?");
    detour.ask("What is a dog?");
    EXPECT_EQ(detour->undo(), "What is a dog?");
    const Talk::Turn turn = detour.ask("And a cello?"), plain = straight.ask("And a cello?");
    EXPECT_EQ(turn.answer, plain.answer);
    EXPECT_EQ(turn.prompt, plain.prompt);
    EXPECT_GT(plain.reused, 0u);
    EXPECT_GE(turn.reused, plain.reused);  // the answer's last token may have been computed for the dog
    EXPECT_EQ(detour->undo(), "And a cello?");
    EXPECT_EQ(detour->undo(), "What is a violin?");
    EXPECT_TRUE(detour->messages().empty());
  }
}

TEST(Conversation, SavedAndLoadedItComputesOnlyWhatIsNew) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--greedy"}, {"--greedy", "--raw"}}) {
    const TemporaryFolder folder;
    const std::string file = folder.path("talk.json");
    Talk kept("demo", words), saved("demo", words), loaded("demo", words);
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
    EXPECT_EQ(loaded->undo(), "And a cello?");
    EXPECT_EQ(loaded->undo(), first);
  }
}

TEST(Conversation, TheFileHoldsMessagesAndSettings) {
  const TemporaryFolder folder;
  const std::string file = folder.path("talk.json");
  Talk talk("demo", {"--temperature", "0.95", "--top-k", "3", "--seed", "7", "--logit-bias", "5=-inf", "--logit-bias",
                     "6=1.5", "--stop", "END", "--system", "Be brief."});
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
  Talk other("demo", {"--greedy"});
  EXPECT_EQ(other.load(file), "");
  EXPECT_EQ(other->system(), "Be brief.");
  EXPECT_EQ(other->settings().sampling.seed, 7u);
  EXPECT_EQ(other->settings().sampling.temperature, 0.95f);
  EXPECT_EQ(other->settings().sampling.logit_bias, talk->settings().sampling.logit_bias);
  EXPECT_EQ(other->settings().stops, std::vector<std::string>{"END"});
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
  EXPECT_EQ(changed("conversation\": 2", "conversation\": 1"), refused + ": is of version 1: want 2");
  EXPECT_EQ(changed("\"role\": \"user\"", "\"role\": \"robot\""),
            refused + ": message 0: role is missing or wrong: want user, assistant or system");
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

TEST(Conversation, WithoutItsStateAllIsComputedAgain) {
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

TEST(ChatHistory, KeepsLinesOfSeveralChats) {
  const TemporaryFolder folder;
  const std::string file = folder.path("state/sluice/history");
  EXPECT_TRUE(read_history(file).empty());
  for (const char* entry : {"one", "two\nlines \\n", "two\nlines \\n", "", "\xff"})
    EXPECT_TRUE(add_to_history(file, entry));
  EXPECT_EQ(read_history(file), (std::vector<std::string>{"one", "two\nlines \\n"}));
  const auto owner_only = std::filesystem::perms::owner_all;
  EXPECT_EQ(std::filesystem::status(folder.path("state/sluice")).permissions(), owner_only);
  std::string full;
  for (size_t i = 0; i < kHistoryEntries; ++i) full += cat("line ", i, '\n');
  ASSERT_TRUE(write_file(file, full));
  EXPECT_TRUE(add_to_history(file, "last"));
  EXPECT_EQ(read_history(file).size(), kHistoryEntries);
  EXPECT_EQ(read_history(file).front(), "line 1");
  EXPECT_EQ(read_history(file).back(), "last");
  ASSERT_TRUE(write_file(file, "\xff\n"));
  EXPECT_TRUE(read_history(file).empty());
}

TEST(ChatHistory, ChatsThatWriteAtOnceLoseNoLine) {
  constexpr int kChats = 4, kLines = 25;
  const TemporaryFolder folder;
  const std::string file = folder.path("state/sluice/history");
  std::vector<std::thread> chats;
  for (int chat = 0; chat < kChats; ++chat) {
    chats.emplace_back([&file, chat] {
      for (int line = 0; line < kLines; ++line) EXPECT_TRUE(add_to_history(file, cat("chat ", chat, " line ", line)));
    });
  }
  for (std::thread& chat : chats) chat.join();
  const std::vector<std::string> entries = read_history(file);
  EXPECT_EQ(entries.size(), size_t{kChats * kLines});
  for (int chat = 0; chat < kChats; ++chat) {
    std::vector<std::string> own;
    for (const std::string& entry : entries)
      if (starts_with(entry, cat("chat ", chat, " "))) own.push_back(entry);
    ASSERT_EQ(own.size(), size_t{kLines});
    for (int line = 0; line < kLines; ++line)
      EXPECT_EQ(own[static_cast<size_t>(line)], cat("chat ", chat, " line ", line));
  }
}

}  // namespace
}  // namespace sluice

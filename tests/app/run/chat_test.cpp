// A chat at a terminal: the program on its own pseudo terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/text.h"
#include "tests/app/program.h"
#include "tests/app/run/terminal.h"
#include "tests/model/adapters/written_adapter.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kViolin = "violin (noun): bowed stringed instrument";
constexpr const char* kCello = "cello (noun): a large stringed instrument";

TEST(Chat, AnswersLineByLineAndLeaves) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n");
  EXPECT_THAT(terminal.wait_for("family.\r\n> "), HasSubstr(kViolin));
  terminal.type("And a cello?\n");
  EXPECT_THAT(terminal.wait_for("playing.\r\n> "), HasSubstr("cello (noun): a large stringed instrument"));
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, TheSecondTurnComputesOnlyWhatIsNew) {
  Terminal terminal({"run", "demo", "--greedy", "--stats"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("prompt  17 tokens, 0 of them reused"));
  terminal.type("And a cello?\n");
  // The first question, its answer and the end of its turn stand; the demo's own golden answer follows.
  const std::string shown = terminal.wait_for("ended by stop");
  EXPECT_THAT(shown, HasSubstr("cello (noun): a large stringed instrument"));
  EXPECT_THAT(shown, HasSubstr("prompt  59 tokens, 42 of them reused"));
}

TEST(Chat, CommandsHelpSystemClearStats) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  const auto said = [&](const char* line) {
    terminal.type(line);
    return terminal.wait_for("\r\n> ");
  };
  EXPECT_THAT(said("/help\n"), HasSubstr("/system TEXT"));
  EXPECT_THAT(said("/stats\n"), HasSubstr("no answer yet"));
  EXPECT_THAT(said("/system\n"), HasSubstr("no system message"));
  said("/system Be brief.\n");
  EXPECT_THAT(said("/system\n"), HasSubstr("\nBe brief.\r\n"));
  EXPECT_THAT(said("/dance\n"), HasSubstr("no command /dance: /help lists them"));
  said("/clear\n");
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

// The terminal's own line mode, which holds until the line editor reads, turns a Ctrl-D into a null character.
TEST(Chat, WhatIsTypedAheadIsTakenAtThePrompt) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n/stats\n\x04");
  EXPECT_THAT(terminal.wait_for("tokens/s"), HasSubstr(kViolin));
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

// The demo calls because it must; in answer to the result it is free. 0.5 s, in make test.
TEST(Chat, ACallTakesTheResultOfItsTool) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path("tools.json"), R"([{"type": "function", "function": {"name": "now", "parameters": {
      "type": "object", "properties": {"zone": {"enum": ["east", "west"]}}, "required": ["zone"],
      "additionalProperties": false}}}])"));
  Terminal terminal(
      {"run", "demo", "--greedy", "--max-tokens", "60", "--tools", folder.path("tools.json"), "--tool-choice", "now"});
  terminal.wait_for("> ");
  const auto said = [&](const std::string& line) {
    terminal.type(line.c_str());
    return terminal.wait_for("\r\n> ");
  };
  EXPECT_THAT(said("/result 12\n"), HasSubstr("/result: no call waits for one: want it behind a call of a tool"));
  EXPECT_THAT(said("What time is it?\n"), testing::AllOf(HasSubstr("now {"), HasSubstr("the result of now)")));
  EXPECT_THAT(said("/result\n"), HasSubstr("/result: no TEXT: want what now has said"));
  EXPECT_THAT(said("/save " + folder.path("chat") + "\n"), HasSubstr("saved 2 messages"));
  // As many as the model has called, each with a result.
  std::string last;
  for (int calls = 0; calls < 20; ++calls) {
    last = said("/result twelve\n");
    if (last.find("the result of now)") == std::string::npos) break;
  }
  EXPECT_THAT(last, Not(HasSubstr("sluice:")));
  EXPECT_THAT(said("/load " + folder.path("chat") + "\n"), HasSubstr("loaded 2 messages"));
  EXPECT_THAT(said("/result twelve\n"), Not(HasSubstr("sluice:")));
}

TEST(Chat, CtrlCTwiceLeaves) {
  Terminal terminal({"run", "demo"});
  terminal.wait_for("> ");
  terminal.type("half a line\x03");
  EXPECT_THAT(terminal.wait_for("leaves\r\n"), HasSubstr("Ctrl-C again or /quit leaves"));
  terminal.wait_for("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, CtrlCStopsTheAnswerAndTheChatGoesOn) {
  // Never the end of a turn: the answer would fill the context.
  Terminal terminal({"run", "demo", "--logit-bias", "16=-inf", "--logit-bias", "1=-inf", "--logit-bias", "9=-inf"});
  terminal.wait_for("> ");
  terminal.type("What is a violin?\n");
  terminal.wait_for("(noun)");
  terminal.type("\x03");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("\r\n> "));
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, CtrlCStopsASingleAnswerWithStatus130) {
  Terminal terminal({"run", "demo", "What is a violin?", "--logit-bias", "16=-inf", "--logit-bias", "1=-inf",
                     "--logit-bias", "9=-inf"});
  terminal.wait_for("(noun)");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 130);
}

TEST(Chat, ALineEndingInABackslashGoesOn) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is \\\n");
  terminal.wait_for("... ");
  terminal.type("a violin?\n");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("(noun)"));
}

// The terminal echoes what is typed, so the answer's own words tell.
TEST(Chat, ThreeQuotesBeginAndEndAPromptOfSeveralLines) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("\"\"\"/What is\n");
  terminal.wait_for("... ");
  terminal.type("a violin?\"\"\"\n");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("(noun)"));
  terminal.type("/system \"\"\"Be\n");
  terminal.wait_for("... ");
  terminal.type("brief.\"\"\"\n");
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("/system"), HasSubstr("\nBe\r\nbrief.\r\n"));
}

TEST(Chat, UndoTakesBackTheLastQuestionAndItsAnswer) {
  Terminal terminal({"run", "demo", "--greedy", "--stats"});
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("nothing to take back"));
  terminal.say("What is a violin?");
  terminal.say("What is a dog?");
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("took back: What is a dog?"));
  // As if the dog had never been asked for: the second turn of TheSecondTurnComputesOnlyWhatIsNew.
  const std::string shown = terminal.say("And a cello?");
  EXPECT_THAT(shown, HasSubstr(kCello));
  EXPECT_THAT(shown, HasSubstr("prompt  59 tokens, 43 of them reused"));  // the end of the turn was run for the dog
}

// What of it is not computed again: conversation_test.cpp.
TEST(Chat, ASavedConversationGoesOnWhereItStood) {
  const TemporaryFolder folder;
  const std::string file = folder.path("talk.json");
  {
    Terminal terminal({"run", "demo", "--greedy"});
    terminal.wait_for("> ");
    terminal.say("What is a violin?");
    EXPECT_THAT(terminal.say("/save " + file), HasSubstr("saved 2 messages"));
  }
  Terminal terminal({"run", "demo", "--stats", "--temperature", "5"});  // greedy comes from the file
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("/load " + folder.path("none.json")), HasSubstr("none.json: cannot open: no such file"));
  EXPECT_THAT(terminal.say("/load " + file), HasSubstr("loaded 2 messages\r\n"));
  const std::string shown = terminal.say("And a cello?");
  EXPECT_THAT(shown, HasSubstr(kCello));
  EXPECT_THAT(shown, HasSubstr("prompt  59 tokens, "));
}

TEST(Chat, AnotherModelGoesOnWithTheConversation) {
  const TemporaryFolder folder;
  const std::string other = folder.path("other.gguf"), file = folder.path("talk.json");
  ASSERT_EQ(run_sluice({"convert", "demo", other, "--to", "bf16"}).status, 0);
  Terminal terminal({"run", "demo", "--greedy", "--stats"});
  terminal.wait_for("> ");
  terminal.say("What is a violin?");
  EXPECT_THAT(terminal.say("/model " + folder.path("none")), HasSubstr("none: no such file or directory"));
  EXPECT_THAT(terminal.say("/model"), HasSubstr("\ndemo  "));
  terminal.say("/model " + other);
  EXPECT_THAT(terminal.say("/model"), HasSubstr("other.gguf"));
  const std::string shown = terminal.say("And a cello?");
  EXPECT_THAT(shown, HasSubstr("(noun): a large stringed instrument"));
  EXPECT_THAT(shown, HasSubstr("prompt  59 tokens, 0 of them reused"));
  // What it says now is no conversation of the demo's.
  terminal.say("/save " + file);
  terminal.say("/model demo");
  EXPECT_THAT(terminal.say("/load " + file), HasSubstr("want that model (/model NAME)"));
}

// The first adapter opens the model again with room for it; with --adapter-slots it takes a slot.
TEST(Chat, AdaptersComeAndGoBetweenQuestions) {
  const TemporaryFolder folder;
  const std::string loud = folder.path("loud");
  std::vector<tests::AdaptedModule> modules;
  for (const char* layer : {"0", "1", "2"})
    modules.push_back({cat("model.language_model.layers.", layer, ".self_attn.q_proj"), 256, 256});
  tests::write_adapter(loud, tests::peft_config(400), tests::peft_factors(modules, 4));
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"--adapter-slots", "1"}}) {
    std::vector<std::string> arguments = {"run", "demo", "--greedy", "--max-tokens", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Terminal terminal(arguments);
    terminal.wait_for("> ");
    EXPECT_THAT(terminal.say("/adapter"), HasSubstr("no adapters"));
    EXPECT_THAT(terminal.say("/adapter " + folder.path("none")), HasSubstr("none: no such adapter"));
    EXPECT_THAT(terminal.say("/adapter " + loud + ":-1"), HasSubstr("added loud"));
    EXPECT_THAT(terminal.say("What is a violin?"), Not(HasSubstr("violin (noun)")));
    EXPECT_THAT(terminal.say("/adapter"), HasSubstr("loud:-1.0  rank 4, 3 weights, " + loud));
    terminal.say("/adapter loud:0");
    EXPECT_THAT(terminal.say("/undo"), HasSubstr("took back"));
    EXPECT_THAT(terminal.say("What is a violin?"), HasSubstr("violin (noun)"));
    EXPECT_THAT(terminal.say("/adapter drop quiet"), HasSubstr("no adapter quiet: want loud"));
    terminal.say("/adapter drop loud");
    EXPECT_THAT(terminal.say("/adapter"), HasSubstr("no adapters"));
  }
}

TEST(Chat, ArrowKeysBringBackLinesOfEarlierChats) {
  const TemporaryFolder folder;
  {
    Terminal terminal({"run", "demo", "--greedy"}, folder.path());
    terminal.wait_for("> ");
    terminal.say("What is a violin?");
    terminal.say("/stats");
    terminal.type("/quit\n");
    EXPECT_EQ(terminal.wait_for_end(), 0);
  }
  EXPECT_EQ(*read_file(folder.path("sluice/history"), 1000), "What is a violin?\n/stats\n/quit\n");
  EXPECT_EQ(list_directory(folder.path("sluice"))->size(), 1u);  // nothing is left beside it
  Terminal terminal({"run", "demo", "--greedy"}, folder.path());
  terminal.wait_for("> ");
  terminal.type("\x1b[A\x1b[A\x1b[A\n");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr(kViolin));
}

TEST(Chat, NoHistoryKeepsNothing) {
  const TemporaryFolder folder;
  Terminal terminal({"run", "demo", "--greedy", "--no-history"}, folder.path());
  terminal.wait_for("> ");
  terminal.say("/stats");
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait_for_end(), 0);
  EXPECT_TRUE(list_directory(folder.path())->empty());
}

// ---- what a day with it needs

// A terminal that knows bracketed pastes.
TEST(Chat, PastedLinesAreOnePrompt) {
  Terminal terminal({"run", "demo", "--greedy"}, "", "xterm");
  EXPECT_THAT(terminal.wait_for("> "), HasSubstr("\x1b[?2004h"));
  terminal.type("\x1b[200~What is\ra violin?\x1b[201~");
  terminal.wait_for("violin?");
  terminal.type("\r");
  EXPECT_THAT(terminal.wait_for("> "), HasSubstr("(noun)"));
  terminal.type("/context\r");
  EXPECT_THAT(terminal.wait_for("messages"), HasSubstr(" 2 messages"));
  terminal.wait_for("> ");
  // A long one stands for itself in the line.
  const std::string filler(1200, ' ');
  terminal.type("\x1b[200~What is a violin?\r" + filler + "\x1b[201~");
  terminal.wait_for("[paste 1: 2 lines]");
  terminal.type("\r");
  EXPECT_THAT(terminal.wait_for("> "), HasSubstr("(noun)"));
  terminal.type("/undo\r");
  EXPECT_THAT(terminal.wait_for("took back: What is a violin?"), HasSubstr("took back: What is a violin?"));
}

TEST(Chat, AltEnterBeginsALineAndTabCompletes) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  terminal.type("What is\x1b\ra violin?\r");
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("(noun)"));
  terminal.type("/conte\t\r");
  EXPECT_THAT(terminal.wait_for("messages\r\n> "), HasSubstr(" 2 messages"));
  terminal.type("/s\t");
  EXPECT_THAT(terminal.wait_for("/system"), HasSubstr("/save  /stats  /system"));
}

TEST(Chat, OtherNamesAndMistypedCommands) {
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("/?"), HasSubstr("/compact"));
  EXPECT_THAT(terminal.say("/stat"), HasSubstr("no command /stat: did you mean /stats?: /help lists them"));
  terminal.type("/bye\n");
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST(Chat, AQuestionIsAnsweredAgainOrChanged) {
  Terminal terminal({"run", "demo", "--temperature", "3"});
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("/regen"), HasSubstr("/regen: there is no question yet"));
  const std::string first = terminal.say("What is a violin?");
  const std::string second = terminal.say("/regen");
  EXPECT_NE(first.substr(first.find('\n')), second.substr(second.find('\n')));
  EXPECT_THAT(terminal.say("/context"), HasSubstr(" of 8192 tokens used, 2 messages"));
  terminal.type("/edit\n");
  terminal.wait_for("What is a violin?");
  terminal.type("\x15What is a dog?\n");  // Ctrl-U takes the line away
  terminal.wait_for("\r\n> ");
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("took back: What is a dog?"));
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("nothing to take back"));
}

TEST(Chat, FilesAreReadAndNeverReplacedUnasked) {
  const TemporaryFolder folder;
  const std::string note = folder.path("note.txt"), talk = folder.path("talk.json");
  ASSERT_TRUE(write_file(note, "a violin?"));
  Terminal terminal({"run", "demo", "--greedy"});
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("What is @" + note), HasSubstr(kViolin));
  terminal.say("/clear");
  EXPECT_THAT(terminal.say("/read " + note), HasSubstr("note.txt, 9 bytes: with the next question"));
  EXPECT_THAT(terminal.say("What is"), HasSubstr("(noun)"));
  EXPECT_THAT(terminal.say("/save " + talk), HasSubstr("saved 2 messages"));
  const std::string before = *read_file(talk, 1 << 20);
  terminal.type("/save " + talk + "\n");
  EXPECT_THAT(terminal.wait_for("[y/N] "), HasSubstr("is there already. Replace it?"));
  EXPECT_THAT(terminal.say("n"), HasSubstr("not saved"));
  terminal.say("What is a dog?");
  terminal.type("/save " + talk + "\n");
  terminal.wait_for("[y/N] ");
  EXPECT_THAT(terminal.say("y"), HasSubstr("saved 4 messages"));
  EXPECT_NE(*read_file(talk, 1 << 20), before);
  EXPECT_THAT(terminal.say("/copy"), HasSubstr("\x1b]52;c;"));
}

TEST(Chat, AFullContextIsSaidAndCompactMakesRoom) {
  Terminal terminal({"run", "demo", "--greedy", "--context", "120"});
  EXPECT_THAT(terminal.wait_for("\r\n> "), HasSubstr("with a context of 120 tokens"));
  terminal.say("What is a violin?");
  EXPECT_THAT(terminal.say("What is a dog?"), HasSubstr("of the context are used: /compact makes room)"));
  EXPECT_THAT(terminal.say("And a cello?"), HasSubstr("want less than the context of 120 (/compact, /clear, or "));
  EXPECT_THAT(terminal.say("/compact"), HasSubstr("dropped the oldest 2 messages; 2 stay"));
  const std::string shown = terminal.say("And a cello?");
  EXPECT_THAT(shown, HasSubstr("(noun)"));
  EXPECT_THAT(shown, testing::Not(HasSubstr("want less than the context")));
}

// ---- pictures

const std::string kSeeing = SLUICE_TEST_DATA "/gemma4_dense", kPhoto = kSeeing + "/image.png";
constexpr const char* kPhotoLine = "image.png, 384 x 384, 64 tokens: with the next question\r\n";

TEST(Chat, APictureIsShownByCommandOrByItsPathAlone) {
  const TemporaryFolder folder;
  const std::string file = folder.path("talk.json");
  Terminal terminal({"run", kSeeing, "--greedy", "--max-tokens", "4"});
  terminal.wait_for("> ");
  EXPECT_THAT(terminal.say("/image " + folder.path("none.png")), HasSubstr("none.png: cannot open: no such file"));
  EXPECT_THAT(terminal.say("/image " + kPhoto), HasSubstr(kPhotoLine));
  EXPECT_THAT(terminal.say("'" + kPhoto + "' "), HasSubstr(kPhotoLine));
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("took back: image.png\r\n"));
  EXPECT_THAT(terminal.say("What is this?"), HasSubstr("\x1b[2mlooking at image.png\x1b[0m\r\x1b[K"));
  EXPECT_THAT(terminal.say("/save " + file), HasSubstr("saved 2 messages"));
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("took back: What is this?\r\nimage.png: with the next question\r\n"));
  EXPECT_THAT(terminal.say("/model " SLUICE_TEST_DATA "/gemma4_moe"),
              HasSubstr("/model: tests/data/gemma4_moe does not take image.png, which the conversation shows: want "
                        "/clear first, or a "
                        "model that does"));
  terminal.say("/clear");
  EXPECT_THAT(terminal.say("/load " + file), HasSubstr("loaded 2 messages\r\n"));
  EXPECT_THAT(terminal.say("/undo"), HasSubstr("image.png: with the next question"));
}

TEST(Chat, ATerminalThatShowsPicturesGetsASmallOne) {
  Terminal terminal({"run", kSeeing, "--thumbnails", "kitty", "--image", kPhoto});
  const std::string shown = terminal.wait_for("> ");
  EXPECT_THAT(shown, HasSubstr("\x1b_Ga=T,q=2,f=24,s=200,v=200,"));
  EXPECT_THAT(shown, HasSubstr(kPhotoLine));
}

TEST(Chat, ATerminalIsAskedWhetherItShowsSixel) {
  Terminal knows({"run", kSeeing, "--image", kPhoto}, "", "xterm");
  knows.wait_for("\x1b[c");
  knows.type("\x1b[?62;4;22c");
  EXPECT_THAT(knows.wait_for(kPhotoLine), HasSubstr("\x1bP0;1q\"1;1;200;200"));
  Terminal silent({"run", kSeeing, "--image", kPhoto}, "", "xterm");
  silent.wait_for("\x1b[c");
  EXPECT_THAT(silent.wait_for(kPhotoLine), testing::Not(HasSubstr("\x1bP")));
}

TEST(Chat, AConversationAboutAPictureGoesOnWithAnotherModelThatTakesIt) {
  Terminal terminal({"run", kSeeing, "--greedy", "--max-tokens", "4", "--image", kPhoto});
  terminal.wait_for("> ");
  terminal.say("What is this?");
  terminal.say("/model " SLUICE_TEST_DATA "/qwen3_5_moe");
  EXPECT_THAT(terminal.say("/model"), HasSubstr("qwen3_5_moe"));
  terminal.type("And this?\n");  // its answer may be empty
  EXPECT_THAT(terminal.wait_for("image.png"), HasSubstr("looking at image.png"));
  terminal.type("/stats\n");
  EXPECT_THAT(terminal.wait_for("ended by length"), HasSubstr("ended by length"));
}

// ---- README.md

// The lines that follow a command in the README's session, and after them the next command.
std::vector<std::string> shown_in_readme(const std::string& command) {
  std::vector<std::string> lines;
  bool inside = false;
  for (const std::string& line : split(*read_file("README.md", 1 << 20), '\n')) {
    if (inside && (!starts_with(line, "    ") || starts_with(line, "    $ ")) && !line.empty()) break;
    if (inside) lines.push_back(line.empty() ? "" : line.substr(4));
    inside = inside || line == "    $ build/release/sluice " + command;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

TEST(Readme, TheAnswerIsReal) {
  const std::vector<std::string> lines = shown_in_readme("run \"What is a violin?\"");
  EXPECT_EQ(split(run_sluice({"run", "What is a violin?"}).out, '\n')[0], lines.at(0));
}

TEST(Readme, TheAnswerAboutAPictureIsReal) {
  const std::vector<std::string> lines =
      shown_in_readme("run --image tests/data/gemma4/picture1.png \"What is in this picture?\"");
  EXPECT_EQ(
      split(run_sluice({"run", "--image", "tests/data/gemma4/picture1.png", "What is in this picture?"}).out, '\n')[0],
      lines.at(0));
}

// But for the line about a picture that is erased, and the machine's name.
TEST(Readme, TheChatIsReal) {
  static const std::regex machine("demo on [^\r\n]*, with");
  Terminal terminal({"run"});
  std::string shown = terminal.wait_for("> ");
  std::string wanted;
  for (const std::string& line : shown_in_readme("run")) {
    wanted += line + "\r\n";
    if (!starts_with(line, "> ")) continue;
    terminal.type(line.substr(2) + "\n");
    shown += terminal.wait_for(line == "> /quit" ? "/quit\r\n" : "\r\n> ");
  }
  static const std::regex erased("\x1b\\[2m[^\x1b]*\x1b\\[0m\r\x1b\\[K");
  const auto plain = [&](const std::string& text) {
    return std::regex_replace(std::regex_replace(text, erased, ""), machine, "demo on a machine, with");
  };
  EXPECT_EQ(plain(shown), plain(wanted));
  EXPECT_EQ(terminal.wait_for_end(), 0);
}

// All but what the machine decides: its name, its instruction set, and digits of differences.
TEST(Readme, TheVerificationIsReal) {
  const std::string command =
      "verify tests/data/gemma4_moe --golden tests/data/gemma4_moe/golden.json --arithmetic exact";
  const auto masked = [](const std::vector<std::string>& lines) {
    static const std::regex measured("[0-9.]+e-[0-9]+ *|cpu/[a-z0-9]+/");
    std::string text;
    for (const std::string& line : lines)
      text += starts_with(line, "device ") ? "" : std::regex_replace(line, measured, "# ") + "\n";
    return text;
  };
  EXPECT_EQ(masked(split(run_sluice(split(command, ' ')).out, '\n')), masked(shown_in_readme(command)) + "\n");
}

TEST(Chat, JsonWithoutAPromptIsRefused) {
  Terminal terminal({"run", "demo", "--json"});
  EXPECT_THAT(terminal.wait_for("JSON\r\n"), HasSubstr("sluice: run: --json without a prompt: want one"));
  EXPECT_EQ(terminal.wait_for_end(), 2);
}

}  // namespace
}  // namespace sluice

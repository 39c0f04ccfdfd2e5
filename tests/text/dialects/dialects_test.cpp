#include <gtest/gtest.h>

#include "base/files/file.h"
#include "text/dialects/channel_splitter.h"
#include "text/dialects/dialect.h"
#include "text/dialects/gemma4.h"

namespace sluice {

static void PrintTo(const ChannelText& text, std::ostream* out) {
  *out << (text.channel == Channel::thinking ? "thinking: " : "answer: ") << text.text;
}

namespace {

using Texts = std::vector<ChannelText>;

const ChatDialect& dialect(std::string_view name) {
  const ChatDialect* found = find_dialect(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

// Joins neighbouring parts of one channel, so that only the text counts, not its pieces.
Texts joined(const Texts& texts) {
  Texts out;
  for (const ChannelText& text : texts)
    if (!out.empty() && out.back().channel == text.channel)
      out.back().text += text.text;
    else
      out.push_back(text);
  return out;
}

Texts split_in_pieces(const ChatDialect& syntax, std::string_view text, size_t piece, Channel start) {
  ChannelSplitter splitter(syntax, start);
  Texts all;
  for (size_t at = 0; at < text.size(); at += piece)
    for (ChannelText& part : splitter.push(text.substr(at, piece))) all.push_back(std::move(part));
  for (ChannelText& part : splitter.flush()) all.push_back(std::move(part));
  return joined(all);
}

void expect_split(std::string_view name, std::string_view text, const Texts& want, Channel start = Channel::answer) {
  for (size_t piece = 1; piece <= text.size() + 1; ++piece)
    EXPECT_EQ(split_in_pieces(dialect(name), text, piece, start), want) << text << " in pieces of " << piece;
}

ChannelText thinking(std::string text) { return {Channel::thinking, std::move(text)}; }
ChannelText answer(std::string text) { return {Channel::answer, std::move(text)}; }

TEST(ChannelSplitter, Gemma4ThoughtsAreAChannelOfTheirOwn) {
  expect_split("gemma4", "<|channel>thought\nLet me see.\n<channel|>A violin.",
               {thinking("Let me see.\n"), answer("A violin.")});
  expect_split("gemma4", "One <|channel>thought\nhm<channel|>two", {answer("One "), thinking("hm"), answer("two")});
  expect_split("gemma4", "<|channel>thought\n<channel|>Only an answer", {answer("Only an answer")});
  expect_split("gemma4", "<|channel>other words<channel|>x", {thinking("other words"), answer("x")});
  expect_split("gemma4", "<|channel>thou<channel|>x", {thinking("thou"), answer("x")});
}

TEST(ChannelSplitter, ThinkTagsTakeTheirNewlinesWithThem) {
  expect_split("think", "<think>\nLet me see.\n\nWell.\n</think>\n\nA violin.\n",
               {thinking("Let me see.\n\nWell."), answer("A violin.\n")});
  expect_split("think", "<think>\n\n</think>\n\nHi", {answer("Hi")});
  expect_split("think", "<think>a</think>b", {thinking("a"), answer("b")});
  expect_split("think", "Hm.\n</think>\n\nHi", {thinking("Hm."), answer("Hi")}, Channel::thinking);
  expect_split("think", "<think>\nagain\n</think>Hi", {thinking("again"), answer("Hi")}, Channel::thinking);
}

TEST(ChannelSplitter, WhatOnlyLooksLikeAMarkerIsText) {
  expect_split("think", "a <thin b </thinks> <<think", {answer("a <thin b </thinks> <<think")});
  expect_split("gemma4", "x <|chan <|channe", {answer("x <|chan <|channe")});
  expect_split("think", "<<think>a<</think>b", {answer("<"), thinking("a<"), answer("b")});
  expect_split("gemma4", "a<|<|channel>thought\nb", {answer("a<|"), thinking("b")});
}

TEST(ChannelSplitter, AnUnfinishedThoughtStaysAThought) {
  expect_split("gemma4", "<|channel>thought\nabc <chan", {thinking("abc <chan")});
  expect_split("think", "<think>\nabc\n\n", {thinking("abc\n\n")});
  expect_split("gemma4", "<|channel>thou", {thinking("thou")});
  expect_split("gemma4", "", {});
}

TEST(ChannelSplitter, APlainDialectHasOnlyAnswers) {
  expect_split("plain", "<think>a</think><|channel>", {answer("<think>a</think><|channel>")});
}

TEST(ChannelSplitter, HoldsBackNoMoreThanAMarkersBeginning) {
  ChannelSplitter splitter(dialect("think"));
  EXPECT_EQ(splitter.push("Hello <"), Texts{answer("Hello ")});
  EXPECT_EQ(splitter.push("b"), Texts{answer("<b")});
  EXPECT_EQ(splitter.push("<thi"), Texts{});
  EXPECT_EQ(splitter.push("nk>x"), Texts{thinking("x")});
  EXPECT_EQ(splitter.channel(), Channel::thinking);
  EXPECT_EQ(splitter.push("y</think>z<"), (Texts{thinking("y"), answer("z")}));
  EXPECT_EQ(splitter.flush(), Texts{answer("<")});
}

TEST(ChannelSplitter, WithTokensMarkedPlainLettersAreNoMarkers) {
  ChannelSplitter splitter(dialect("think"), Channel::thinking, ChannelSplitter::Markers::as_tokens);
  EXPECT_EQ(splitter.push("Write </think> or <think>?\n"), Texts{thinking("Write </think> or <think>?")});
  EXPECT_EQ(splitter.push("</think>", true), Texts{});
  EXPECT_EQ(splitter.push("\n\n"), Texts{});
  EXPECT_EQ(splitter.push("It is <think>."), Texts{answer("It is <think>.")});
  EXPECT_EQ(splitter.push("<other>", true), Texts{answer("<other>")});
  EXPECT_EQ(splitter.flush(), Texts{});
}

constexpr auto kNoTokens = [](std::string_view) { return false; };

TEST(Dialects, AreKnownByTheTemplate) {
  for (const auto& [model, name] : {std::pair("gemma4", "gemma4"), std::pair("gemma4_dense", "gemma4"),
                                    std::pair("qwen3_5", "think"), std::pair("deepseek_v3", "think")}) {
    const auto text = read_file(cat(SLUICE_TEST_DATA, "/", model, "/chat_template.jinja"), 1u << 20);
    ASSERT_TRUE(text.ok()) << model;
    EXPECT_EQ(detect_dialect(*text, kNoTokens).name, name) << model;
  }
  EXPECT_EQ(detect_dialect(gemma4_chat_template(false), kNoTokens).name, "gemma4");
  EXPECT_EQ(detect_dialect("{{ messages }}", kNoTokens).name, "plain");
}

TEST(Dialects, AreKnownByTheTokensWithoutATemplate) {
  const auto gemma = [](std::string_view token) { return token == "<|channel>" || token == "<channel|>"; };
  const auto half = [](std::string_view token) { return token == "<think>"; };
  EXPECT_EQ(detect_dialect("", gemma).name, "gemma4");
  EXPECT_EQ(detect_dialect("", half).name, "plain");
  EXPECT_EQ(detect_dialect("</think>", gemma).name, "think");
  EXPECT_EQ(find_dialect("nonsense"), nullptr);
}

TEST(Dialects, APromptMayEndInsideAThought) {
  EXPECT_TRUE(starts_thinking(dialect("think"), "<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(starts_thinking(dialect("think"), "<|Assistant|><think>"));
  EXPECT_FALSE(starts_thinking(dialect("think"), "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(starts_thinking(dialect("think"), "What is <think>?<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_TRUE(starts_thinking(dialect("gemma4"), "<|turn>model\n<|channel>thought\n"));
  EXPECT_TRUE(starts_thinking(dialect("gemma4"), "<|turn>model\n<|channel>"));
  EXPECT_FALSE(starts_thinking(dialect("gemma4"), "<|turn>model\n<|channel>thought\n<channel|>"));
  EXPECT_FALSE(starts_thinking(dialect("gemma4"), "<|turn>model\n"));
  EXPECT_FALSE(starts_thinking(dialect("plain"), "<think>"));
  EXPECT_FALSE(starts_thinking(dialect("think"), ""));
}

}  // namespace
}  // namespace sluice

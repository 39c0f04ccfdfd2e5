#include <functional>
#include <random>
#include <set>

#include "grammars.h"

namespace sluice::test {
namespace {

TEST(RegexGrammar, MatchesTheWholeText) {
  expect_texts(regex_source("a(b|c)*d?"), {"a", "abcbd", "ad"}, {"", "b", "abx", "add"});
  expect_texts(regex_source("^[0-9]{2,4}$"), {"12", "1234"}, {"1", "12345", "1a"});
  expect_texts(regex_source("x{0}"), {""}, {"x"});
  expect_texts(regex_source("(?:ab){3}"), {"ababab"}, {"abab", "abababab"});
  expect_texts(regex_source("(?<year>\\d{4})"), {"2024"}, {"202"});
  expect_texts(regex_source("a{,3}"), {"a{,3}"}, {"aaa"});
}

TEST(RegexGrammar, KnowsCharactersOfSeveralBytes) {
  expect_texts(regex_source("."), {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}, {"", "\n", "\xc3", "ab"});
  expect_texts(regex_source("[\\u00e0-\\u20ac]"), {"\xc3\xa9", "\xe2\x82\xac"}, {"a", "\xe2\x82\xad"});
  expect_texts(regex_source("[^a]"), {"b", "\xed\x9f\xbf"}, {"a", "\xed\xa0\x80", "\xc0\x80"});
  expect_texts(regex_source("\\p{Lu}\\P{L}"), {"A1", "\xc3\x89-"}, {"a1", "AB"});
}

TEST(RegexGrammar, CountsLongLoops) {
  const auto grammar = compiled(regex_source("a{500,100000}"));
  EXPECT_FALSE(accepts(grammar, std::string(499, 'a')));
  EXPECT_TRUE(accepts(grammar, std::string(500, 'a')));
  EXPECT_TRUE(accepts(grammar, std::string(100000, 'a')));
  EXPECT_FALSE(accepts(grammar, std::string(100001, 'a')));
}

TEST(RegexGrammar, RefusesByName) {
  EXPECT_EQ(refusal(regex_source("(?=a)b")),
            "regular expression (?=a)b: look-ahead (?= at byte 0 cannot be honoured: want an expression without it");
  EXPECT_EQ(refusal(regex_source("(a)\\1")),
            "regular expression (a)\\1: a back-reference at byte 3 cannot be honoured: want an expression without it");
  EXPECT_NE(refusal(regex_source("\\bword")).find("word boundary"), std::string::npos);
  EXPECT_NE(refusal(regex_source("a**")).find("a quantifier follows another"), std::string::npos);
  EXPECT_NE(refusal(regex_source("(a")).find("a group does not end"), std::string::npos);
  EXPECT_NE(refusal(regex_source("a)")).find("a ) closes nothing"), std::string::npos);
  EXPECT_NE(refusal(regex_source("[a")).find("a class does not end"), std::string::npos);
  EXPECT_NE(refusal(regex_source("a{3,2}")).find("descends"), std::string::npos);
  EXPECT_NE(refusal(regex_source("[]")).find("no text satisfies it"), std::string::npos);
  EXPECT_NE(refusal(regex_source(std::string(100, '(') + std::string(100, ')'))).find("nest too deep"),
            std::string::npos);
}

TEST(RegexGrammar, BoundsWhatAnExpressionMayTake) {
  EXPECT_EQ(refusal(regex_source("((((a{1000}){1000}){1000}){1000})")), "compiled");  // counted, not written out
  EXPECT_NE(refusal(regex_source("(a?){0,1000}")).find("may be empty"), std::string::npos);
  // Too many ways to read a text end in a dead state, never in a wrong one.
  const auto grammar = compiled(regex_source("((a{1,1000}){1,1000}b){1,1000}d"));
  Automaton automaton(grammar);
  Automaton::State state = automaton.start();
  for (int i = 0; i < 2000 && !automaton.exhausted(); ++i) state = automaton.next(state, 'a');
  EXPECT_TRUE(automaton.exhausted());
  EXPECT_EQ(state, Automaton::kDead);
}

// A regular expression and what it matches, said without automata.
struct Plain {
  std::string text;
  std::function<std::set<size_t>(std::string_view, size_t)> ends;  // of matches that begin there
};

Plain random_expression(std::mt19937& random, int depth) {
  const auto pick = [&](uint32_t count) { return static_cast<uint32_t>(random() % count); };
  static constexpr std::string_view kAtoms[] = {"a", "b", "c", "[ab]", "[^a]", "[b-c]"};
  static constexpr std::string_view kReads[] = {"a", "b", "c", "ab", "bc", "bc"};
  struct Times {
    std::string_view text;
    size_t least, most;
  };
  static constexpr Times kTimes[] = {{"", 1, 1},    {"*", 0, 99},    {"+", 1, 99},   {"?", 0, 1},
                                     {"{2}", 2, 2}, {"{1,3}", 1, 3}, {"{2,}", 2, 99}};
  Plain whole{"", [](std::string_view, size_t at) { return std::set{at}; }};
  for (uint32_t count = 1 + pick(3); count > 0; --count) {
    Plain part;
    if (depth > 0 && pick(3) == 0) {
      const Plain one = random_expression(random, depth - 1), other = random_expression(random, depth - 1);
      part = {"(" + one.text + "|" + other.text + ")", [=](std::string_view text, size_t at) {
                std::set<size_t> ends = one.ends(text, at);
                ends.merge(other.ends(text, at));
                return ends;
              }};
    } else {
      const uint32_t atom = pick(6);
      part = {std::string(kAtoms[atom]), [=](std::string_view text, size_t at) {
                const bool reads = at < text.size() && kReads[atom].find(text[at]) != std::string_view::npos;
                return reads ? std::set{at + 1} : std::set<size_t>();
              }};
    }
    const Times times = kTimes[pick(7)];
    const auto before = whole.ends;
    whole.text += part.text + std::string(times.text);
    whole.ends = [=](std::string_view text, size_t at) {
      std::set<size_t> ends, reached = before(text, at);
      for (size_t round = 0; round <= std::min(times.most, text.size() + 2); ++round) {
        if (round >= times.least) ends.insert(reached.begin(), reached.end());
        std::set<size_t> next;
        for (const size_t from : reached) next.merge(part.ends(text, from));
        reached = std::move(next);
      }
      return ends;
    };
  }
  return whole;
}

TEST(RegexGrammar, AgreesWithAMatcherOfSets) {
  std::mt19937 random(7);
  int agreed = 0;
  for (int round = 0; round < 200; ++round) {
    const Plain expression = random_expression(random, 2);
    const auto grammar = compiled(regex_source(expression.text));
    for (int i = 0; i < 30; ++i) {
      std::string sample;
      for (size_t length = random() % 8; length > 0; --length) sample += "abc"[random() % 3];
      EXPECT_EQ(accepts(grammar, sample), expression.ends(sample, 0).contains(sample.size()))
          << expression.text << " on " << sample;
      agreed += accepts(grammar, sample) ? 1 : 0;
    }
  }
  EXPECT_GT(agreed, 300);
}

}  // namespace
}  // namespace sluice::test

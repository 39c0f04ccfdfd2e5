#include "grammars.h"

namespace sluice::test {
namespace {

TEST(Gbnf, ReadsTheNotation) {
  expect_texts(gbnf_source("# a comment\nroot ::= greeting \" \" name [.!]?  # more\n"
                           "greeting ::= \"hi\" | \"hello\"\nname ::= [A-Z] [a-z]{1,5}\n"),
               {"hi Bob", "hello Alice!"}, {"hi bob", "hello ", "hi Bartholomew", "hey Bob"});
  expect_texts(gbnf_source("root ::= (\"a\" |\n  \"b\")+\n"), {"a", "bab"}, {"", "c"});
  expect_texts(gbnf_source("root ::= \"a\"\n  | \"b\"\n"), {"a", "b"}, {"ab"});
  expect_texts(gbnf_source("root ::= [^\\x00-\\x1F\\]\"]* \"\\u00e9\\n\""), {"ab\xc3\xa9\n"}, {"a]\xc3\xa9\n", "a"});
  expect_texts(gbnf_source("root ::= . . "), {"\xe2\x82\xac\xe2\x82\xac"}, {"a"});
  expect_texts(gbnf_source("root ::= \"a\" empty\nempty ::=\n"), {"a"}, {"", "aa"});
}

TEST(Gbnf, FollowsRecursion) {
  expect_texts(gbnf_source("root ::= \"(\" root? \")\""), {"()", "((()))"}, {"(()", "())", ""});
  expect_texts(gbnf_source("root ::= \"a\" | \"a\" \",\" root"), {"a", "a,a,a"}, {"a,", ",a"});
  // Right recursion takes no stack.
  const auto list = compiled(gbnf_source("root ::= \"a\" root | \"b\""));
  EXPECT_TRUE(accepts(list, std::string(20000, 'a') + "b"));
}

TEST(Gbnf, SaysWhatIsWrong) {
  EXPECT_EQ(refusal(gbnf_source("x ::= \"a\"")), "the grammar has no rule root: want one");
  EXPECT_EQ(refusal(gbnf_source("root ::= other")), "rule other is used but not there");
  EXPECT_EQ(refusal(gbnf_source("root ::= root \"a\" | \"b\"")),
            "rule root begins with itself: want it to read something first");
  EXPECT_EQ(refusal(gbnf_source("root ::= \"a\"\nroot ::= \"b\"")), "rule root is there twice");
  EXPECT_EQ(refusal(gbnf_source("root ::= \"a")), "line 1 of the grammar: found its end: want the end of a literal");
  EXPECT_EQ(refusal(gbnf_source("root ::= \"a\"\nb := \"c\"")), "line 2 of the grammar: found := \"c\": want ::=");
  EXPECT_EQ(refusal(gbnf_source("root ::= \"a\" root")), "no text satisfies it: want one that can");
  EXPECT_NE(refusal(gbnf_source("root ::= <think>")).find("want a literal, a class"), std::string::npos);
  EXPECT_NE(refusal(gbnf_source("root ::= " + std::string(60000, '(') + "\"a\"" + std::string(60000, ')')))
                .find("want at most 64 groups"),
            std::string::npos);
  EXPECT_NE(refusal(gbnf_source("root ::= \"" + std::string(2'000'000, 'a') + "\"")).find("want at most 1048576"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::test

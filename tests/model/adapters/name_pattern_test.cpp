// Patterns of module names against what Python's re.fullmatch says of them. Milliseconds, for each change.
#include "model/adapters/name_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

bool matches(const char* pattern, const std::string& name) {
  const Result<NamePattern> parsed = NamePattern::parse(pattern);
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed && parsed->matches(name);
}

TEST(NamePattern, MatchesWholeNames) {
  EXPECT_TRUE(matches("o_proj", "o_proj"));
  EXPECT_FALSE(matches("o_proj", "self_attn.o_proj"));
  EXPECT_TRUE(matches("(.*\\.)?(o_proj)", "self_attn.o_proj"));
  EXPECT_FALSE(matches("(.*\\.)?(o_proj)", "self_attn.no_proj"));
  EXPECT_TRUE(matches("(.*\\.)?(.*\\.gate_up_proj)", "layers.3.mlp.experts.gate_up_proj"));
  EXPECT_TRUE(matches("^model\\.layers\\.\\d+\\.mlp$", "model.layers.17.mlp"));
  EXPECT_FALSE(matches("model\\.layers\\.\\d+\\.mlp", "model.layers.x.mlp"));
  EXPECT_TRUE(matches("a(?:b|cd)+[x-z]?", "abcdby"));
  EXPECT_FALSE(matches("a(?:b|cd)+[^x-z]", "abx"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(NamePattern, TakesNoLongerForPatternsThatMakeOthersBackTrack) {
  EXPECT_FALSE(matches("(a*)*(a|a)*((a+)+)+b", std::string(2000, 'a')));
}

TEST(NamePattern, RefusesWhatItDoesNotKnow) {
  for (const char* pattern : {"(?=a)b", "a{2}", "\\bword", "(a", "a)", "[a", "*a", "a\\"})
    EXPECT_FALSE(NamePattern::parse(pattern)) << pattern;
  EXPECT_FALSE(NamePattern::parse(std::string(100, '(') + std::string(100, ')')));
  EXPECT_FALSE(NamePattern::parse(std::string(5000, 'a')));
}

}  // namespace
}  // namespace sluice

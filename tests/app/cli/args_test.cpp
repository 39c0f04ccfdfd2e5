#include "app/cli/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;

CommandSpec make_spec() {
  return {
      .name = "toy",
      .summary = "A command for this test",
      .positionals = {{"MODEL", true, "a model", "-m|--model", "demo"},
                      {.name = "PROMPT", .help = "a prompt", .option = "-p", .is_prose = true}},
      .options =
          {
              {.name = "--verbose", .help = "say more"},
              {.name = "--count",
               .aliases = "-n|--number",
               .argument = "N",
               .kind = OptionKind::integer,
               .fallback = "3",
               .least = 1,
               .most = 9},
              {.name = "--share", .argument = "P", .kind = OptionKind::number, .fallback = "0.5", .most = 1},
              {.name = "--memory", .argument = "BYTES", .kind = OptionKind::bytes},
              {.name = "--mode", .argument = "exact|fast", .kind = OptionKind::choice, .fallback = "fast"},
              {.name = "--stop", .argument = "TEXT", .kind = OptionKind::text, .repeated = true},
          },
  };
}

Result<Arguments> parse(const std::vector<std::string>& words) {
  static const CommandSpec spec = make_spec();
  return parse_arguments(spec, words);
}

std::string error_of(const std::vector<std::string>& words) {
  const Result<Arguments> parsed = parse(words);
  return parsed ? "" : parsed.error().text;
}

TEST(Arguments, DefaultsComeFromTheTable) {
  const Result<Arguments> parsed = parse({"m"});
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->flag("--verbose"));
  EXPECT_EQ(parsed->integer("--count"), 3);
  EXPECT_EQ(parsed->number("--share"), 0.5);
  EXPECT_EQ(parsed->text("--mode"), "fast");
  EXPECT_FALSE(parsed->given("--memory"));
  EXPECT_THAT(parsed->all("--stop"), ElementsAre());
}

TEST(Arguments, ValuesFollowASpaceOrAnEqualsSign) {
  const Result<Arguments> parsed = parse({"--count", "4", "--mode=exact", "m", "--memory", "1.5G", "--verbose"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->integer("--count"), 4);
  EXPECT_EQ(parsed->text("--mode"), "exact");
  EXPECT_EQ(parsed->integer("--memory"), 1500000000);
  EXPECT_TRUE(parsed->flag("--verbose"));
  EXPECT_THAT(parsed->positionals(), ElementsAre("m"));
}

TEST(Arguments, TheLastOfRepeatedValuesCountsUnlessTheyAdd) {
  const Result<Arguments> parsed = parse({"m", "--count", "4", "--count", "5", "--stop", "a", "--stop", "b"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->integer("--count"), 5);
  EXPECT_THAT(parsed->all("--stop"), ElementsAre("a", "b"));
}

TEST(Arguments, TwoDashesEndTheOptions) {
  const Result<Arguments> parsed = parse({"m", "--", "--verbose"});
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->flag("--verbose"));
  EXPECT_THAT(parsed->positionals(), ElementsAre("m", "--verbose"));
}

TEST(Arguments, AValueMayBeginWithDashes) {
  const Result<Arguments> parsed = parse({"m", "--stop", "--"});
  ASSERT_TRUE(parsed);
  EXPECT_THAT(parsed->all("--stop"), ElementsAre("--"));
}

TEST(Arguments, EveryMistakeIsOneSentence) {
  EXPECT_EQ(error_of({}), "toy: missing MODEL (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "p", "q"}),
            "toy: unexpected argument q: want PROMPT in quotes: \"p q ...\" (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--colour"}), "toy: unknown option --colour (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "-v"}), "toy: unknown option -v (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--verbose=1"}), "toy: --verbose takes no value (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--count"}), "toy: --count wants a value: N (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--count", "ten"}), "toy: --count is ten: want a whole number, 1 to 9 (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--count", "10"}), "toy: --count is 10: want a whole number, 1 to 9 (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--share", "1.5"}), "toy: --share is 1.5: want a number, 0 to 1 (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--share", "nan"}), "toy: --share is nan: want a number, 0 to 1 (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--memory", "much"}),
            "toy: --memory is much: want a size such as 512M or 4G (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--mode", "quick"}), "toy: --mode is quick: want exact|fast (sluice toy --help)");
}

TEST(Arguments, AnOptionHasOtherSpellings) {
  for (const char* name : {"-n", "--number", "--count"}) {
    const Result<Arguments> parsed = parse({"m", name, "7"});
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(parsed->integer("--count"), 7);
  }
  EXPECT_EQ(error_of({"m", "-n", "ten"}), "toy: -n is ten: want a whole number, 1 to 9 (sluice toy --help)");
}

TEST(Arguments, APositionalArgumentMayBeGivenByAnOption) {
  const auto positionals = [](const std::vector<std::string>& words) { return parse(words)->positionals(); };
  EXPECT_THAT(positionals({"-m", "a", "-p", "what is it"}), ElementsAre("a", "what is it"));
  EXPECT_THAT(positionals({"-p", "what is it"}), ElementsAre("demo", "what is it"));
  EXPECT_THAT(positionals({"--model=a", "what"}), ElementsAre("a", "what"));
  EXPECT_THAT(positionals({"what", "-m", "a"}), ElementsAre("a", "what"));
  EXPECT_EQ(error_of({"-m"}), "toy: -m wants a value (sluice toy --help)");
  EXPECT_EQ(error_of({"-m", "a", "b", "c"}),
            "toy: unexpected argument c: want PROMPT in quotes: \"b c ...\" (sluice toy --help)");
}

TEST(Arguments, AChoiceMayBeInAnyCase) { EXPECT_EQ(parse({"m", "--mode", "EXACT"})->text("--mode"), "exact"); }

TEST(Arguments, AMistypedOptionIsAnsweredWithTheNearest) {
  EXPECT_EQ(error_of({"m", "--cuont", "3"}), "toy: unknown option --cuont: did you mean --count? (sluice toy --help)");
  EXPECT_EQ(error_of({"m", "--mod"}), "toy: unknown option --mod: did you mean --mode? (sluice toy --help)");
}

TEST(Arguments, ARequiredOptionMustBeGiven) {
  CommandSpec spec = make_spec();
  spec.options[3].required = true;
  const std::vector<std::string> words = {"m"};
  EXPECT_EQ(parse_arguments(spec, words).error().text, "toy: missing --memory BYTES (sluice toy --help)");
}

TEST(ParseBytes, UnitsAreDecimalAndBinary) {
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("512M"), 512000000u);
  EXPECT_EQ(parse_bytes("2Gi"), 2147483648u);
  EXPECT_EQ(parse_bytes("1.5k"), 1500u);
  EXPECT_EQ(parse_bytes("0"), 0u);
  for (const char* four : {"4G", "4g", "4GB", "4gb", "4000M", "4000MB"})
    EXPECT_EQ(parse_bytes(four), 4000000000u) << four;
  for (const char* four : {"4Gi", "4GiB", "4gib"}) EXPECT_EQ(parse_bytes(four), 4294967296u) << four;
  EXPECT_EQ(parse_bytes("12B"), 12u);
  for (const char* bad : {"", "M", "-1", "1Q", "1e30G", "nan", "inf", "4i", "4iB", "B", "GB", "4GG"})
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace sluice

// Text with placeholders: what is filled, and that every mistake in it is reported with the placeholder's name.
#include "device/webgpu/wgsl_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/webgpu/kernel.h"

namespace sluice::webgpu {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;

TEST(WgslTemplate, PutsEveryValueInItsPlaces) {
  EXPECT_EQ(fill("fn ${w}_16(row: u32) { return ${w}_word(row${plus}); }", {{"w", "gate"}, {"plus", " + 1u"}}),
            "fn gate_16(row: u32) { return gate_word(row + 1u); }");
  EXPECT_EQ(fill("${a}${b}", {{"b", "2"}, {"a", ""}}), "2");
  EXPECT_EQ(fill("var x = 1u;", {}), "var x = 1u;");
  EXPECT_EQ(fill("", {}), "");
}

// A value may be a text that its own maker filled, with braces of its own.
TEST(WgslTemplate, TakesAValueAsItIs) { EXPECT_EQ(fill("${body}}", {{"body", "if (a) { b(); "}}), "if (a) { b(); }"); }

TEST(WgslTemplate, NamesThePlaceholderThatIsWrong) {
  EXPECT_EQ(template_fault("${w}_16", {{"w", "up"}}), "");
  EXPECT_EQ(template_fault("${w}_16(${row})", {{"w", "up"}}), "placeholder ${row} has no value");
  EXPECT_EQ(template_fault("${w}_16", {{"w", "up"}, {"row", "i"}}), "placeholder ${row} is not in the text");
  EXPECT_EQ(template_fault("${w}_16", {{"w", "up"}, {"w", "up"}}), "placeholder ${w} has two values");
}

TEST(WgslTemplate, TakesNoDollarThatBeginsNoPlaceholder) {
  EXPECT_EQ(template_fault("sum_$ = 0.0;", {}), "'$' begins no placeholder: \"$ = 0.0;\"");
  EXPECT_EQ(template_fault("a ${w", {{"w", "up"}}), "'$' begins no placeholder: \"${w\"");
  EXPECT_EQ(template_fault("a ${} b", {}), "'$' begins no placeholder: \"${} b\"");
  EXPECT_EQ(template_fault("a $w b", {{"w", "up"}}), "'$' begins no placeholder: \"$w b\"");
}

// A CHECK, which throws in tests.
TEST(WgslTemplate, EndsWithTheFault) {
  EXPECT_THAT([] { fill("${w}_16", {}); },
              Throws<std::logic_error>(Property(&std::exception::what, HasSubstr("placeholder ${w} has no value"))));
}

TEST(WgslTemplate, IsFilledBeforeItBecomesAKernel) {
  Kernel kernel{.name = "test", .body = "fn main() { twice_${number}(); }"};
  kernel.bindings = {{.name = "memory", .slot = {SlotKind::memory}, .access = Access::read_write}};
  EXPECT_THAT([&] { pipeline_text(kernel); },
              Throws<std::logic_error>(Property(&std::exception::what, HasSubstr("${number} has no value"))));
}

}  // namespace
}  // namespace sluice::webgpu

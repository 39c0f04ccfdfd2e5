#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "base/files/file.h"
#include "text/jinja/template.h"

namespace sluice::jinja {
namespace {

std::tm some_time() {  // Saturday, 4 July 2026, 13:05:09
  std::tm now{};
  now.tm_year = 126, now.tm_mon = 6, now.tm_mday = 4, now.tm_hour = 13, now.tm_min = 5, now.tm_sec = 9;
  now.tm_wday = 6, now.tm_yday = 184;
  return now;
}

Result<std::string> render(std::string_view text, const Json& context = Json(Json::Object{}),
                           const Limits& limits = {}) {
  TRY(const Template parsed, Template::parse(text, "t", limits));
  TRY(const Value variables, to_value(context));
  return parsed.render(variables, some_time());
}

std::string outcome(const Result<std::string>& result) { return result ? *result : "error: " + result.error().text; }

std::string error_of(std::string_view text, const Limits& limits = {}) {
  const Result<std::string> result = render(text, Json(Json::Object{}), limits);
  return result ? "no error, but: " + *result : result.error().text;
}

Json read_vectors() {
  const auto text = read_file(std::string(SLUICE_TEST_DATA) + "/jinja_vectors.json", 1u << 20);
  EXPECT_TRUE(text.ok());
  auto json = parse_json(*text, "jinja_vectors.json");
  EXPECT_TRUE(json.ok());
  return *std::move(json);
}

// tools/make_jinja_vectors.py wrote them with jinja2, set up as transformers does.
TEST(Jinja, RendersWhatJinja2Renders) {
  const Json vectors = read_vectors();
  int texts = 0;
  for (const Json& vector : vectors.find("vectors")->as_array()) {
    const Json* want = vector.find("text");
    const Result<std::string> got = render(vector.find("template")->as_string(), *vectors.find("context"));
    if (want != nullptr) {
      EXPECT_EQ(outcome(got), want->as_string()) << vector.find("template")->as_string();
      ++texts;
    } else {
      EXPECT_FALSE(got.ok()) << vector.find("template")->as_string()
                             << "\njinja2: " << vector.find("error")->as_string() << "\nours: " << outcome(got);
    }
  }
  EXPECT_GT(texts, 120);
}

TEST(Jinja, ErrorsNameTheTemplateAndItsLine) {
  EXPECT_EQ(error_of("a\nb\n{% if true %}\nc"), "t:3: the block \"if\" is not closed: want {% endif %}");
  EXPECT_EQ(error_of("\n\n{{ x.y }}"), "t:3: 'x' is undefined, so it has no attribute \"y\"");
  EXPECT_EQ(error_of("{% macro f(x) %}\n{{ x.y.z }}\n{% endmacro %}\n{{ f({}) }}"),
            "t:2: 'dict object' has no attribute 'y', so it has no attribute \"z\"");
  EXPECT_EQ(error_of("{{ 1\n+ [\n'a\n' + 2] }}"), "t:4: found str + int, which Python does not have");
}

TEST(Jinja, BrokenTemplatesGiveOneSentence) {
  EXPECT_EQ(error_of("{{ a"), "t:1: the tag is not closed: want }}");
  EXPECT_EQ(error_of("{% if a"), "t:1: the tag is not closed: want %}");
  EXPECT_EQ(error_of("{# a"), "t:1: the comment is not closed: want #}");
  EXPECT_EQ(error_of("{{ 'a }}"), "t:1: the string is not closed: want '");
  EXPECT_EQ(error_of("{% raw %} {{"), "t:1: the raw block is not closed: want {% endraw %}");
  EXPECT_EQ(error_of("{% for x in y %}{% endif %}"), "t:1: found {% endif %}, which closes nothing");
  EXPECT_EQ(error_of("{% include 'x' %}"), "t:1: the tag \"include\" is not known");
  EXPECT_EQ(error_of("{{ (1] }}"), "t:1: found \"]\": want \")\"");
  EXPECT_EQ(error_of("{{ 1 2 }}"), "t:1: found \"2\": want }}");
  EXPECT_EQ(error_of("{{ a ? b }}"), "t:1: found the character \"?\", which no expression has");
  EXPECT_EQ(error_of("{{ '\\ud83d' }}"),
            "t:1: the string has an escape that is no character: want \\xNN, \\uNNNN or \\UNNNNNNNN");
  EXPECT_EQ(error_of("{{ 99999999999999999999 }}"), "t:1: the integer 99999999999999999999 does not fit 64 bits");
  EXPECT_EQ(error_of("{{ 1 | nonsense }}"), "t:1: the filter \"nonsense\" is not known");
  EXPECT_EQ(error_of("{{ 1 is nonsense }}"), "t:1: the test \"nonsense\" is not known");
  EXPECT_EQ(error_of("{{ nonsense(1) }}"), "t:1: 'nonsense' is undefined, so it cannot be called");
  EXPECT_EQ(error_of("{{ raise_exception('roles must alternate') }}"),
            "t:1: the template refuses this conversation: roles must alternate");
  EXPECT_EQ(error_of("\xff"), "t: found bytes that are not UTF-8: want text");
}

TEST(Jinja, ListsAndDictsMayNotBeChanged) {
  EXPECT_EQ(error_of("{% set l = [1] %}{{ l.append(2) }}"),
            "t:1: \"append\" would change a list, so it cannot be called");
  EXPECT_EQ(error_of("{% set d = {} %}{{ d.update({}) }}"),
            "t:1: \"update\" would change a dict, so it cannot be called");
}

TEST(Jinja, IntegersBeyond64BitsAreErrors) {
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"), "t:1: the result does not fit a 64-bit integer");
  EXPECT_EQ(error_of("{{ 2 ** 64 }}"), "t:1: the result does not fit a 64-bit integer");
  EXPECT_EQ(outcome(render("{{ -9223372036854775807 - 1 }} {{ (-9223372036854775807 - 1) % -1 }}")),
            "-9223372036854775808 0");
  EXPECT_EQ(error_of("{{ (-9223372036854775807 - 1) // -1 }}"), "t:1: the result does not fit a 64-bit integer");
  EXPECT_EQ(error_of("{{ 1e300 | int }}"), "t:1: int: the number does not fit 64 bits");
}

TEST(Jinja, FromJsonReadsJson) {
  EXPECT_EQ(outcome(render("{{ ('{\"a\": [1, null]}' | from_json).a[1] is none }}")), "True");
  EXPECT_EQ(error_of("{{ '{' | from_json }}"), "t:1: from_json: no JSON at byte 2");
}

TEST(Jinja, SurrogatePairsInStringsAreOneCharacter) {
  EXPECT_EQ(outcome(render("{{ '\\ud83d\\ude00' }}{{ '\\ud83d\\ude00' | length }}")), "😀1");
}

TEST(Jinja, AMacroKeepsTheScopeItWasDefinedIn) {
  EXPECT_EQ(outcome(render("{% set ns = namespace() %}{% for i in [7] %}{% macro f() %}{{ i }}{% endmacro %}"
                           "{% set ns.f = f %}{% endfor %}{{ ns.f() }}")),
            "7");
}

TEST(Jinja, NamespacesMayHoldThemselves) {
  EXPECT_EQ(outcome(render("{% set a = namespace(n=1) %}{% set a.me = a %}{{ a.me.me.n }}{{ [a] }}")),
            "1[<Namespace>]");
}

// ---- Hostile templates

std::string times(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(JinjaLimits, AMacroThatCallsItselfForeverStops) {
  EXPECT_EQ(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            "t:1: expressions, statements and macro calls are nested deeper than 400");
  EXPECT_EQ(error_of("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"),
            "t:1: expressions, statements and macro calls are nested deeper than 400");
  EXPECT_EQ(error_of("{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}"),
            "t:1: expressions, statements and macro calls are nested deeper than 400");
  EXPECT_EQ(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
            "t:1: expressions, statements and macro calls are nested deeper than 400");
}

TEST(JinjaLimits, LoopsAreBounded) {
  EXPECT_EQ(error_of("{% for i in range(1000000000) %}x{% endfor %}"),
            "t:1: range: found 1000000000 numbers: want 100000 at most");
  EXPECT_EQ(error_of("{{ range(-9223372036854775807, 9223372036854775807) }}"),
            "t:1: range: found 18446744073709551614 numbers: want 100000 at most");
  const std::string nested = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(error_of(nested, {.steps = 100000}), "t:1: the template takes more than 100000 steps");
}

TEST(JinjaLimits, OutputIsBounded) {
  EXPECT_EQ(error_of("{% for i in range(100000) %}{{ 'a' * 1000 }}{% endfor %}", {.text_bytes = 1000000}),
            "t:1: the template prints more than 1.0 MB");
  EXPECT_EQ(error_of("{% for i in [1, 2] %}{{ 'a' * 15 }}{% endfor %}", {.text_bytes = 20}),
            "t:1: the template prints more than 20 bytes");
}

// Values that a template no longer holds do not count.
TEST(JinjaLimits, MemoryIsBounded) {
  const auto made = [](std::string_view text) {
    return error_of(text, {.memory_bytes = 4000000, .text_bytes = 1000000});
  };
  const std::string_view text = "t:1: the template makes a text of more than 1.0 MB";
  const std::string_view memory = "t:1: the template takes more than 4.0 MB of memory";
  EXPECT_EQ(made("{{ 'a' * 1000000000000 }}"), text);
  EXPECT_EQ(made("{{ 'abc' * 9223372036854775807 }}"), text);
  EXPECT_EQ(made("{{ [1] * 9223372036854775807 }}"), memory);
  EXPECT_EQ(made("{{ ('a' * 10000).replace('a', 'b' * 10000) }}"), text);
  EXPECT_EQ(made("{{ ('a' * 10000).replace('', 'b' * 10000) }}"), text);
  EXPECT_EQ(made("{{ ('a' * 10000) | join('b' * 10000) }}"), text);
  EXPECT_EQ(made("{{ ('a\\n' * 10000) | indent(10000) }}"), text);
  EXPECT_EQ(made("{{ ('a' * 100000) | list }}"), memory);
  EXPECT_EQ(made("{{ 'a'.center(9000000000000000000) }}"), text);
  EXPECT_EQ(made("{{ [1] | batch(9000000000000000000, 0) | list }}"), memory);
  EXPECT_EQ(made("{{ [1] | slice(9000000000000000000, 0) | list }}"), memory);
  EXPECT_EQ(made("{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
            text);
  EXPECT_EQ(
      made("{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l ~ 'abc' * 100] + [i] * 999 %}"
           "{% set ns.l = ns.l + ns.l %}{% set ns.k = namespace(l=ns.l, k=ns.k) %}{% endfor %}"),
      memory);
  EXPECT_EQ(made("{% set x %}{% for i in range(9999) %}{{ 'a' * 1000 }}{% endfor %}{% endset %}"), text);
  EXPECT_EQ(made("{% for i in range(99999) %}{% macro f() %}{% endmacro %}{% endfor %}"), memory);
  EXPECT_EQ(
      made("{% set ns = namespace(s='') %}{% for i in range(600) %}{% set ns.s = ns.s ~ 'abc' * 33 %}{% endfor %}"),
      "no error, but: ");
  EXPECT_EQ(error_of("{{ 'a' * 1000000000000 }}"), "t:1: the template makes a text of more than 16.0 MB");
  EXPECT_EQ(error_of("{{ [1] * 1000000000000 }}"), "t:1: the template takes more than 128.0 MB of memory");
  EXPECT_EQ(error_of("{{ '%999999999d' % 1 }}"), "t:1: a format's width is larger than 1000000");
}

// Containers shared many times over print exponentially long.
TEST(JinjaLimits, SharedContainersDoNotExplode) {
  const std::string doubling =
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  EXPECT_EQ(error_of(doubling + "{{ ns.l }}", {.steps = 100000}), "t:1: the template takes more than 100000 steps");
  EXPECT_EQ(error_of(doubling + "{{ ns.l | tojson }}", {.steps = 100000}),
            "t:1: the template takes more than 100000 steps");
  const std::string other =
      "{% set a = ns.l %}{% set ns.l = [1] %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% endfor %}{{ a == ns.l }}";
  EXPECT_EQ(error_of(doubling + other, {.steps = 100000}), "t:1: the template takes more than 100000 steps");
}

TEST(JinjaLimits, DeepValuesAreRefused) {
  EXPECT_EQ(error_of("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}"),
            "t:1: a value is nested deeper than 200");
  EXPECT_EQ(
      error_of("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l.index] %}{% endfor %}"),
      "t:1: a value is nested deeper than 200");
  EXPECT_EQ(
      error_of("{% set ns = namespace(l=1) %}{% for i in range(1000) %}{% set ns.l = cycler(ns.l) %}{% endfor %}"),
      "t:1: a value is nested deeper than 200");
  EXPECT_EQ(
      error_of("{% set ns = namespace(l=[1]) %}{% for i in range(1000) %}{% for j in ns.l %}{% set ns.l = [loop] %}"
               "{% endfor %}{% endfor %}"),
      "t:1: a value is nested deeper than 200");
  // A chain of namespaces is no nesting: they all end with the rendering.
  EXPECT_EQ(outcome(render("{% set ns = namespace(a=1) %}{% for i in range(50000) %}{% set ns.a = namespace(a=ns.a) %}"
                           "{% endfor %}{{ ns.a.a.a is defined }}")),
            "True");
}

TEST(JinjaLimits, DeepTemplatesAreRefused) {
  EXPECT_EQ(error_of("{{ " + times("(", 5000) + "1" + times(")", 5000) + " }}"),
            "t:1: the template is nested deeper than 100");
  EXPECT_EQ(error_of("{{ " + times("[", 5000) + times("]", 5000) + " }}"),
            "t:1: the template is nested deeper than 100");
  EXPECT_EQ(error_of("{{ " + times("-", 5000) + "1 }}"), "t:1: the template is nested deeper than 100");
  EXPECT_EQ(error_of("{{ " + times("not ", 5000) + "1 }}"), "t:1: the template is nested deeper than 100");
  EXPECT_EQ(error_of("{{ " + times("1 if 1 else ", 5000) + "1 }}"), "t:1: the template is nested deeper than 100");
  EXPECT_EQ(error_of(times("{% if 1 %}", 5000)), "t:1: the template is nested deeper than 100");
  EXPECT_EQ(error_of("{% set " + times("(", 5000)), "t:1: the tag is not closed: want %}");
  EXPECT_EQ(error_of("{% set " + times("(", 5000) + "a" + times(")", 5000) + " = 1 %}"),
            "t:1: the template is nested deeper than 100");
  const std::string_view chain = "t:1: the expression has more than 100 parts in a chain";
  EXPECT_EQ(error_of("{{ 1" + times(" + 1", 5000) + " }}"), chain);
  EXPECT_EQ(error_of("{{ x" + times(".a", 5000) + " }}"), chain);
  EXPECT_EQ(error_of("{{ x" + times("|e", 5000) + " }}"), chain);
  EXPECT_EQ(error_of("{{ x" + times("()", 5000) + " }}"), chain);
  EXPECT_EQ(error_of("{{ 1" + times(" if 1", 5000) + " }}"), chain);
  EXPECT_EQ(outcome(render("{{ 'a'" + times(" ~ 'a'", 1000) + " }}")), times("a", 1001));
  EXPECT_EQ(outcome(render("{% if 0 %}" + times("{% elif 0 %}", 10000) + "{% else %}x{% endif %}")), "x");
}

TEST(JinjaLimits, TheTemplateItselfIsBounded) {
  EXPECT_EQ(error_of(times("a", 2000000)), "t: found a template of 2.0 MB: want 262.1 kB at most");
}

// Builtins and operators are charged a step for each 16 bytes that they look at. The text here is the caller's, so
// making it costs nothing.
TEST(JinjaLimits, LookingAtTextCostsSteps) {
  const auto steps = [](const std::string& expression, size_t bytes, std::string_view of) {
    const Template parsed = *Template::parse("{% set x = " + expression + " %}", "t");
    const std::string text = times(of, static_cast<int>(bytes / of.size()));
    const Json context(Json::Object{{"s", text}, {"d", Json(Json::Object{{text, 1}})}, {"l", Json(Json::Array{1, 2})}});
    Usage usage;
    const Result<std::string> result = parsed.render(*to_value(context), some_time(), &usage);
    EXPECT_TRUE(result.ok()) << expression << outcome(result);
    return usage.steps;
  };
  const auto expect_charged = [&](const std::string& expression, std::string_view of) {
    constexpr size_t kFew = 1600;
    constexpr size_t kMany = 160000;
    const uint64_t more = steps(expression, kMany, of) - steps(expression, kFew, of);
    EXPECT_GE(more, (kMany - kFew) / 16) << expression << " takes too few steps";
    EXPECT_LE(more, kMany) << expression << " takes too many steps";
  };
  for (const char* expression : {"s in d",
                                 "d[s]",
                                 "d.get(s)",
                                 "s == s ~ ''",
                                 "s < s ~ 'b'",
                                 "s.isdigit()",
                                 "s.isalpha()",
                                 "s.isupper()",
                                 "s.strip()",
                                 "s.strip('ba')",
                                 "s.lstrip('b')",
                                 "s.split('b')",
                                 "s.split()",
                                 "s.rsplit('b', 1)",
                                 "s.splitlines()",
                                 "s.startswith('b')",
                                 "s.endswith('b')",
                                 "s.find('b', 1)",
                                 "s.count('b', 1)",
                                 "s.partition('b')",
                                 "s | int(7)",
                                 "s | float(7)",
                                 "s | truncate(9)",
                                 "s | wordcount",
                                 "s is upper",
                                 "s is lower",
                                 "s.replace('', 'b', 1)",
                                 "'%.5s' % s",
                                 "'{}'.format(s)",
                                 "'%s'.format(s)",
                                 "l | map(attribute=s, default=1) | list",
                                 "'b' in s",
                                 "s in 'b'",
                                 "s[1:]",
                                 "s ~ 'b'",
                                 "s | upper",
                                 "s | tojson | length",
                                 "s | e",
                                 "s | trim",
                                 "s.removeprefix('b')",
                                 "[s] ~ ''",
                                 "l | join(s)",
                                 "s | urlencode"}) {
    expect_charged(expression, "a");
  }
  for (const char* expression : {"s | length", "s[3]", "s[-1]", "s[::2]", "s.find('b')", "s.center(3)"})
    expect_charged(expression, "é");
}

// Operations that look at one place take the same few steps for any length.
TEST(JinjaLimits, LengthsAndFirstItemsCostLittle) {
  const auto steps = [](size_t size) {
    Usage usage;
    const Json messages(Json::Array(size, Json("x")));
    const Json context(Json::Object{{"messages", messages}, {"s", times("a", static_cast<int>(size))}});
    const Template parsed = *Template::parse(
        "{{ messages | length }}{% if messages[0] is string and s is string and messages[-1] and s[0] %}"
        "{{ messages | first }}{{ messages | last }}{{ s | length }}{{ s | default('') and 1 }}{% endif %}",
        "t");
    EXPECT_TRUE(parsed.render(*to_value(context), some_time(), &usage).ok());
    return usage.steps;
  };
  EXPECT_EQ(steps(100), steps(100000));
}

struct HostileTemplate {
  const char* text;
  const char* ends_with;
};

constexpr char kSteps[] = "t:1: the template takes more than 200000 steps";
constexpr char kText[] = "t:1: the template makes a text of more than 1.0 MB";
constexpr char kMemory[] = "t:1: the template takes more than 8.0 MB of memory";
#define SLUICE_FOREVER(statement) \
  "{% for i in range(9999) %}{% for j in range(9999) %}{% set x = " statement " %}{% endfor %}{% endfor %}"
#define SLUICE_LONG "{% set s = 'a' * 900000 %}"
#define SLUICE_WIDE "{% set s = 'é' * 450000 %}"

// Each of these once ran for minutes or took gigabytes, or would do so without one of the limits.
constexpr HostileTemplate kHostile[] = {
    {SLUICE_LONG "{% set d = {s: 1} %}" SLUICE_FOREVER("s in d"), kSteps},
    {SLUICE_LONG "{% set d = {s: 1} %}" SLUICE_FOREVER("d[s]"), kSteps},
    {SLUICE_LONG "{% set d = {s ~ 'b': 1} %}" SLUICE_FOREVER("d[s ~ 'c']"), kSteps},
    {"{% set s = '1' * 900000 %}" SLUICE_FOREVER("s.isdigit()"), kSteps},
    {"{% set s = ' ' * 900000 %}" SLUICE_FOREVER("s.strip()"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s.strip('é')"), kSteps},
    {SLUICE_LONG SLUICE_FOREVER("s.split('b')"), kSteps},
    {SLUICE_LONG SLUICE_FOREVER("s.startswith('b')"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s.find('a', 5)"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s.count('é', 3)"), kSteps},
    {"{% set s = '1' * 900000 %}" SLUICE_FOREVER("s | int"), kSteps},
    {"{% set s = '1' * 900000 %}" SLUICE_FOREVER("s | float"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s | truncate(3)"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s | wordcount"), kSteps},
    {"{% set s = 'A' * 900000 %}" SLUICE_FOREVER("s is upper"), kSteps},
    {SLUICE_LONG SLUICE_FOREVER("s.replace('', 'b', 1)"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("'%.5s' % s"), kSteps},
    {"{% set s = 'a.' * 450000 %}" SLUICE_FOREVER("[{}, {}] | map(attribute=s, default={}) | list"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s[449999]"), kSteps},
    {SLUICE_WIDE SLUICE_FOREVER("s[::-1]"), kSteps},
    {SLUICE_LONG SLUICE_FOREVER("('a' * 400000 ~ 'b') in s"), kSteps},
    {SLUICE_LONG "{% set t = (s, s, s) * 9999 %}" SLUICE_FOREVER("(s ~ 'a').startswith(t)"), kSteps},
    {"{% set c = cycler(*([1] * 40000)) %}" SLUICE_FOREVER("[c]"), kSteps},
    {SLUICE_FOREVER("'%.400f' % 1e300"), kSteps},
    {SLUICE_FOREVER("1.5 | round(300)"), kSteps},
    {SLUICE_FOREVER("('[' ~ '0,' * 9999 ~ '0]') | from_json"), kSteps},
    {"{{ ('a ' * 130000000) | wordcount }}", kText},
    {"{{ ('a ' * 450000).split() | length }}", kMemory},
    {"{{ ('a ' * 450000).rsplit(' ') | length }}", kMemory},
    {"{{ ('a\\n' * 450000).splitlines() | length }}", kMemory},
    {"{{ ('\\u0001' * 200000) | tojson }}", kText},
    {"{{ ('a\\n' * 100000) | indent(99) }}", kText},
    {"{{ ('&' * 300000) | e }}", kText},
    {"{{ ([1] * 200000) | sort }}", kMemory},
    {"{{ ('a' * 90000) | list }}", kMemory},
    {"{{ ('a' * 60000) | map(attribute='b') | list | length }}", kMemory},
    {"{{ ('[' ~ '0,' * 400000 ~ '0]') | from_json }}", kMemory},
    {"{% macro f() %}{% set x %}{{ 'a' * 900000 }}{{ f() }}{% endset %}{% endmacro %}{{ f() }}", kMemory},
    {"{% macro f() %}{{ f(*([1] * 40000)) }}{{ varargs }}{% endmacro %}{{ f() }}", kMemory},
    {"{% set d = dict([['a' * 900000, 1]]) %}{% macro f() %}{{ f(**d) }}{{ kwargs }}{% endmacro %}{{ f() }}", kMemory},
    {"{{ 'a' | map(*(['map'] * 600)) | list }}",
     "t:1: expressions, statements and macro calls are nested deeper than 400"},
};

TEST(JinjaLimits, HostileTemplatesEndSoonWithinTheirMemory) {
  for (const HostileTemplate& hostile : kHostile) {
    const bool by_steps = hostile.ends_with == std::string_view(kSteps);
    const Limits limits = {
        .steps = by_steps ? 200000 : kMaxTemplateSteps, .memory_bytes = 8000000, .text_bytes = 1000000};
    const Result<Template> parsed = Template::parse(hostile.text, "t", limits);
    ASSERT_TRUE(parsed.ok()) << hostile.text;
    Usage usage;
    EXPECT_EQ(outcome(parsed->render(*to_value(Json(Json::Object{})), some_time(), &usage)),
              std::string("error: ") + hostile.ends_with)
        << hostile.text;
    // A single charge is at most the whole limit.
    EXPECT_LE(usage.steps, limits.steps + limits.memory_bytes / kTemplateStepBytes) << hostile.text;
    EXPECT_LE(usage.peak_bytes, limits.memory_bytes) << hostile.text;
  }
}

// A template can have as many names, parameters and arguments as its length allows.
TEST(JinjaLimits, ManyNamesTakeSteps) {
  std::string names;
  std::string parameters;
  for (int i = 0; i < 5000; ++i) {
    names += cat("{% set a", i, " = 1 %}");
    parameters += cat(i == 0 ? "" : ", ", "a", i, "=1");
  }
  const Limits limits = {.steps = 500000};
  EXPECT_EQ(error_of(names, limits), "t:1: the template takes more than 500000 steps");
  EXPECT_EQ(error_of(cat("{% macro f(", parameters, ") %}{% endmacro %}{{ f(", parameters, ") }}"), limits),
            "t:1: the template takes more than 500000 steps");
}

// The next turn of a scope can hold a loop's variable and the scope around the loop.
TEST(JinjaLimits, AChainOfHeldLoopsEndsWithoutTheStack) {
  EXPECT_EQ(outcome(render("{% set ns = namespace() %}{% for i in range(50000) %}{% set before = ns.held %}"
                           "{% for x in [1] %}{% set ns.held = loop %}{% endfor %}{% endfor %}done")),
            "done");
  EXPECT_EQ(outcome(render("{% set ns = namespace() %}{% for i in range(50000) %}{% set before = ns.held %}"
                           "{% for x in [1] %}{% set ns.held = loop.cycle %}{% endfor %}{% endfor %}done")),
            "done");
}

// The sign at the end of a comment keeps or drops the following white space, as for a block.
TEST(Jinja, CommentsWithPlusKeepTheirWhiteSpace) {
  EXPECT_EQ(outcome(render("a\n  {#+ x +#}\nb")), "a\n  \nb");
  EXPECT_EQ(outcome(render("a\n  {# x #}\nb")), "a\nb");
  EXPECT_EQ(outcome(render("a\n  {# x +#}\nb")), "a\n\nb");
  EXPECT_EQ(outcome(render("a\n  {#- x -#}\n b")), "ab");
  EXPECT_EQ(outcome(render("a\n  {# +#}\nb")), "a\n\nb");
  EXPECT_EQ(outcome(render("a\n  {#+#}\nb")), "a\n  b");
}

// The deepest allowed template must not overflow the stack. Sanitizers make frames several times larger.
TEST(JinjaLimits, TheDeepestAllowedTemplateFitsTheStack) {
  const std::string parentheses = "{{ " + times("(", 90) + "x" + times(")", 90) + " }}";
  EXPECT_EQ(outcome(render(parentheses)), "");
  const std::string recursion = "{% macro f(n) %}{% if n %}{{ " + times("-(", 30) + "f(n - 1) | length" +
                                times(")", 30) + " }}{% endif %}{% endmacro %}{{ f(6) }}";
  EXPECT_EQ(outcome(render(recursion)), "1");
}

}  // namespace
}  // namespace sluice::jinja

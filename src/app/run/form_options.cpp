#include "app/run/form_options.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/files/file.h"

namespace sluice {
namespace {

constexpr std::array<const char*, 4> kFormNames = {"--json-schema", "--grammar", "--regex", "--choice"};

// A schema begins with a brace; anything else names a file.
Result<Json> read_schema(const std::string& given) {
  const bool is_json =
      given.find_first_not_of(" \t\r\n") != std::string::npos && given[given.find_first_not_of(" \t\r\n")] == '{';
  if (is_json) return parse_json(given, "--json-schema");
  TRY(const std::string text, read_file(given, kMaxGrammarBytes));
  return parse_json(text, given);
}

Error named(const Arguments& arguments, const Error& failure) {
  const std::string name = form_name(arguments);
  return name.empty() ? failure : error(failure.kind, name, ": ", failure.text);
}

}  // namespace

std::string form_name(const Arguments& arguments) {
  for (const char* name : kFormNames)
    if (arguments.given(name)) return name;
  return "";
}

Result<std::optional<GrammarSource>> form_source(const Arguments& arguments) {
  const auto given = std::ranges::count_if(kFormNames, [&](const char* name) { return arguments.given(name); });
  if (given == 0) return std::optional<GrammarSource>();
  if (given > 1)
    return error(ErrorKind::invalid, "more than one of --json-schema, --grammar, --regex and --choice: want one");
  GrammarSource source;
  if (arguments.given("--json-schema")) {
    source.kind = GrammarSource::Kind::json_schema;
    TRY_ASSIGN(source.schema, read_schema(arguments.text("--json-schema")));
  } else if (arguments.given("--grammar")) {
    source.kind = GrammarSource::Kind::gbnf;
    TRY_ASSIGN(source.text, read_file(arguments.text("--grammar"), kMaxGrammarBytes));
  } else if (arguments.given("--regex")) {
    source.kind = GrammarSource::Kind::regex;
    source.text = arguments.text("--regex");
  } else {
    source.kind = GrammarSource::Kind::choice;
    source.choices = arguments.all("--choice");
  }
  return std::optional(std::move(source));
}

std::vector<OptionSpec> form_options() {
  return {
      {.name = "--json-schema",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "the answer is JSON by this JSON Schema: a file, or the schema itself, which begins with a brace. A "
               "model may think first. What cannot be honoured is refused by path and keyword"},
      {.name = "--grammar",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "the answer keeps to a grammar in GBNF, llama.cpp's notation"},
      {.name = "--regex",
       .argument = "REGEX",
       .kind = OptionKind::text,
       .help = "the whole answer matches this regular expression, without look-around and back-references"},
      {.name = "--choice",
       .argument = "TEXT",
       .kind = OptionKind::text,
       .help = "the answer is this text, or that of another --choice",
       .repeated = true},
  };
}

Status check_form(const Arguments& arguments) {
  TRY(const std::optional<GrammarSource> source, form_source(arguments));
  if (!source) return {};
  const auto grammar = compile_grammar(*source);
  if (!grammar) return named(arguments, grammar.error());
  return {};
}

Result<std::shared_ptr<const AnswerGrammar>> answer_grammar(const Arguments& arguments, const TextParts& text) {
  TRY(const std::optional<GrammarSource> source, form_source(arguments));
  if (!source) return std::shared_ptr<const AnswerGrammar>();
  auto grammar = text.grammars->compile(text.tokenizer, *source);
  if (!grammar) return named(arguments, grammar.error());
  return grammar;
}

}  // namespace sluice

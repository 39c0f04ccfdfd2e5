#include "text/grammar/grammar_source.h"

#include <algorithm>
#include <utility>

#include "text/grammar/gbnf.h"
#include "text/grammar/grammar_builder.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex.h"

namespace sluice {
namespace {

Status check_size(uint64_t bytes) {
  if (bytes <= kMaxGrammarBytes) return {};
  return error(ErrorKind::invalid, "it has ", bytes, " bytes: want at most ", kMaxGrammarBytes);
}

Result<Grammar> grammar_of_regex(const std::string& regex) {
  GrammarBuilder builder;
  const RuleId main = builder.add_rule("the expression");
  TRY(const RegexPart part, parse_regex(builder, regex, {}));
  builder.define(main, part.expression);
  return builder.finish(main);
}

Result<Grammar> grammar_of_choices(const std::vector<std::string>& choices) {
  uint64_t bytes = 0;
  for (const std::string& one : choices) bytes += one.size();
  TRY_STATUS(check_size(bytes));
  if (choices.empty()) return error(ErrorKind::invalid, "there is no choice: want at least one");
  GrammarBuilder builder;
  const RuleId main = builder.add_rule("the choices");
  builder.define(main, builder.words(choices));
  return builder.finish(main);
}

Result<Grammar> compile(const GrammarSource& source) {
  TRY_STATUS(check_size(source.text.size()));
  switch (source.kind) {
    case GrammarSource::Kind::json_object: return grammar_of_json_object();
    case GrammarSource::Kind::json_schema:
      TRY_STATUS(check_size(write_json(source.schema).size()));
      return grammar_of_schema(source.schema);
    case GrammarSource::Kind::gbnf: return grammar_of_gbnf(source.text);
    case GrammarSource::Kind::regex: return grammar_of_regex(source.text);
    case GrammarSource::Kind::choice: return grammar_of_choices(source.choices);
    case GrammarSource::Kind::calls:
      TRY_STATUS(check_size(write_json(source.calls.tools).size()));
      if (source.calls.form) TRY_STATUS(check_size(write_json(*source.calls.form).size()));
      return grammar_of_calls(source.calls);
  }
  return error(ErrorKind::invalid, "the kind of grammar is unknown");
}

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSource& source) {
  TRY(Grammar grammar, compile(source));
  return std::make_shared<const Grammar>(std::move(grammar));
}

}  // namespace sluice

// Structured output from any bytes. The first byte chooses the notation: JSON Schema, GBNF or a regular expression. A
// line of '=' ends the source; what follows is read as an answer. An answer that a schema takes whole is JSON.
#include "base/check.h"
#include "base/json.h"
#include "text/grammar/automaton.h"
#include "text/grammar/grammar_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t end = all.find("\n=\n");
  const std::string_view written = all.substr(0, end);
  const std::string_view answer = end == std::string_view::npos ? "" : all.substr(end + 3);
  GrammarSource source;
  switch (data[0]) {
    case 's': {
      const auto schema = parse_json(written, "schema");
      if (!schema) return 0;
      source = {.kind = GrammarSource::Kind::json_schema, .schema = *schema};
      break;
    }
    case 'g': source = {.kind = GrammarSource::Kind::gbnf, .text = std::string(written)}; break;
    default: source = {.kind = GrammarSource::Kind::regex, .text = std::string(written)};
  }
  const auto grammar = compile_grammar(source);
  if (!grammar) return 0;
  Automaton automaton(*grammar);
  Automaton::State state = automaton.start();
  for (const char byte : answer) {
    bool forgot = false;
    state = automaton.renew(state, &forgot);
    state = automaton.next(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) return 0;
  }
  if (data[0] == 's' && automaton.can_end(state)) CHECK(parse_json(answer, "answer"));
  return 0;
}

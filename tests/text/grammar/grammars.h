// Helpers for tests of grammars.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "text/grammar/automaton.h"
#include "text/grammar/grammar_source.h"
#include "text/grammar/token_mask.h"

namespace sluice::test {

using Source = GrammarSource;

inline Source schema_source(std::string_view schema) {
  return {.kind = Source::Kind::json_schema, .schema = *parse_json(schema, "schema")};
}
inline Source regex_source(std::string_view regex) { return {.kind = Source::Kind::regex, .text = std::string(regex)}; }
inline Source gbnf_source(std::string_view gbnf) { return {.kind = Source::Kind::gbnf, .text = std::string(gbnf)}; }

inline std::shared_ptr<const Grammar> compiled(const Source& source) {
  auto grammar = compile_grammar(source);
  EXPECT_TRUE(grammar.ok()) << (grammar ? "" : grammar.error().text);
  return grammar ? *grammar : nullptr;
}
inline std::string refusal(const Source& source) {
  const auto grammar = compile_grammar(source);
  return grammar ? "compiled" : grammar.error().text;
}

inline bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  if (grammar == nullptr) return false;
  Automaton automaton(grammar, kMaskBytes);
  Automaton::State end = automaton.start();
  bool forgot = false;
  for (const char byte : text) end = automaton.next(automaton.renew(end, &forgot), static_cast<uint8_t>(byte));
  return end != Automaton::kDead && automaton.can_end(end);
}

// The texts of both lists, by whether the source accepts them.
inline void expect_texts(const Source& source, std::initializer_list<std::string_view> valid,
                         std::initializer_list<std::string_view> invalid) {
  const auto grammar = compiled(source);
  for (const std::string_view text : valid) EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const std::string_view text : invalid) EXPECT_FALSE(accepts(grammar, text)) << text;
}

}  // namespace sluice::test

// Structured output: the constraint of one answer (engine/constraint.h), made of a compiled grammar.
//
// Calls of tools may be enforced in two ways. Either the whole answer is calls, then their grammar holds as any other
// does; or the answer is free, and the grammar holds from each token that opens a call to the one that closes it.
//
// The grammar holds from the first token of the answer proper. A thought may come first if thinking was asked for, or
// if the prompt ends inside a thought; in it every token may come but those that end the answer. Where the dialect
// writes line ends behind a thought, one such token may stand before the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "engine/constraint.h"
#include "text/dialects/dialect.h"
#include "text/dialects/tool_syntax.h"
#include "text/grammar/grammar_source.h"
#include "text/grammar/token_mask.h"
#include "text/tokenizer.h"

namespace sluice {

// A grammar and the vocabulary that it is asked about. Threads may share it.
struct AnswerGrammar {
  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<const TokenTrie> trie;
  std::vector<TokenMarker> markers = {};
  std::optional<int32_t> opens = {};  // the grammar is that of a call, which begins with this token
  size_t room = kMaskBytes;           // TokenMask's
};

// What grammars of `answers` at once may take where the host's memory is bounded: a sixteenth of the bound, or less.
struct GrammarMemory {
  uint64_t bytes = 0;        // of the vocabulary's tree, of grammars that are kept, and of all answers
  size_t room = kMaskBytes;  // of each answer
};
GrammarMemory grammar_memory(int32_t vocabulary, uint32_t answers, uint64_t bound);

// Compiles the grammars of a model's requests, and keeps the last ones. Threads may use it at once.
class AnswerGrammars {
 public:
  // For the answers of the grammars that are compiled later.
  void set_room(size_t room) { room_ = room; }
  // `tokenizer` is the same in all calls. Its tree is built by the first one. `syntax`: of a source that is calls.
  Result<std::shared_ptr<const AnswerGrammar>> compile(const Tokenizer& tokenizer, const GrammarSource& source,
                                                       const ToolSyntax* syntax = nullptr);

 private:
  std::shared_ptr<const TokenTrie> trie_of(const Tokenizer& tokenizer);

  std::atomic<size_t> room_ = kMaskBytes;
  Mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<const AnswerGrammar>>> kept_;  // by digest; the last used first
};

class AnswerConstraint final : public Constraint {
 public:
  struct Thought {
    bool begun = false;    // where the prompt ends
    bool allowed = false;  // to begin
  };
  // `tokenizer` outlives it. `ends` are the tokens that end the answer.
  AnswerConstraint(std::shared_ptr<const AnswerGrammar> grammar, const Tokenizer& tokenizer, const ChatDialect& dialect,
                   Thought thought, std::vector<int32_t> ends);

  // No token is forced, so that each has its logits.
  void sample_always() { samples_always_ = true; }

  Result<std::span<const uint32_t>> mask() override;
  std::optional<int32_t> forced() override;
  bool accept(int32_t token) override;

 private:
  enum class Place : uint8_t { start, thought, behind_thought, answer, free };

  Result<std::span<const uint32_t>> thought_mask();
  bool is_marker(int32_t token) const;

  std::shared_ptr<const AnswerGrammar> grammar_;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> ends_;
  std::optional<int32_t> open_, close_;  // of a thought; no `open_`: none may begin
  std::vector<int32_t> line_ends_;       // that may stand behind it
  Place place_ = Place::start;
  bool samples_always_ = false;
  TokenMask answer_;
  TokenBits bits_;  // of a mask that is not the grammar's own
};

}  // namespace sluice

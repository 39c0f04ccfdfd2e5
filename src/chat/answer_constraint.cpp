#include "chat/answer_constraint.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"

namespace sluice {
namespace {

constexpr size_t kKeptGrammars = 16;
constexpr uint64_t kKeptBytes = uint64_t{8} << 20;   // of them
constexpr uint64_t kTreeBytes = 64;                  // of a vocabulary's tree for each token
constexpr uint64_t kStepBytes = uint64_t{36} << 20;  // that one mask takes at most before it is cut to its room
constexpr uint64_t kLeastRoom = uint64_t{256} << 10, kMostRoom = uint64_t{4} << 20;

std::string digest_of(const GrammarSource& source) {
  Sha256 digest;
  // Lengths keep one part from passing for another.
  const auto add = [&](std::string_view part) {
    digest.add(cat(part.size(), ":"));
    digest.add(part);
  };
  add(cat(static_cast<int>(source.kind)));
  add(source.kind == GrammarSource::Kind::json_schema ? write_json(source.schema) : std::string());
  add(source.text);
  for (const std::string& choice : source.choices) add(choice);
  if (source.kind == GrammarSource::Kind::calls) {
    add(cat(static_cast<int>(source.calls.notation), ' ', source.calls.most, ' ', source.calls.only_call ? 1 : 0));
    add(write_json(source.calls.tools));
    add(source.calls.form ? write_json(*source.calls.form) : std::string());
  }
  return digest.finish_hex();
}

Result<std::vector<TokenMarker>> find_markers(const Tokenizer& tokenizer, const ToolSyntax& syntax) {
  std::vector<std::string_view> texts = {syntax.open, syntax.close};
  texts.insert(texts.end(), syntax.inner.begin(), syntax.inner.end());
  texts.insert(texts.end(), syntax.outer.begin(), syntax.outer.end());
  std::vector<TokenMarker> markers;
  for (const std::string_view text : texts) {
    const std::optional<int32_t> token = tokenizer.find(text);
    if (!token)
      return error(ErrorKind::unsupported, "calls cannot be enforced, because the vocabulary has no token ", text);
    markers.push_back({.token = *token, .number = static_cast<uint32_t>(markers.size())});
  }
  return markers;
}

}  // namespace

GrammarMemory grammar_memory(int32_t vocabulary, uint32_t answers, uint64_t bound) {
  const uint64_t shared = static_cast<uint64_t>(vocabulary) * kTreeBytes + kKeptBytes + kStepBytes;
  const uint64_t bytes = std::min(shared + answers * kMostRoom, bound / 16);
  const uint64_t rest = bytes - std::min(bytes, shared);
  return {.bytes = bytes, .room = static_cast<size_t>(std::clamp(rest / std::max(answers, 1u), kLeastRoom, kMostRoom))};
}

std::shared_ptr<const TokenTrie> AnswerGrammars::trie_of(const Tokenizer& tokenizer) {
  const MutexLock lock(mutex_);
  if (trie_ == nullptr) trie_ = std::make_shared<const TokenTrie>(tokenizer);
  return trie_;
}

Result<std::shared_ptr<const AnswerGrammar>> AnswerGrammars::compile(const Tokenizer& tokenizer,
                                                                     const GrammarSource& source,
                                                                     const ToolSyntax* syntax) {
  std::string digest = digest_of(source);
  {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(kept_, digest, [](const auto& one) { return one.first; });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return found->second;
    }
  }
  TRY(std::shared_ptr<const Grammar> grammar, compile_grammar(source));
  AnswerGrammar answer{.grammar = std::move(grammar), .trie = trie_of(tokenizer), .room = room_};
  if (source.kind == GrammarSource::Kind::calls) {
    CHECK(syntax != nullptr);
    TRY_ASSIGN(answer.markers, find_markers(tokenizer, *syntax));
    if (source.calls.only_call) answer.opens = answer.markers[kOpenMarker].token;
  }
  auto made = std::make_shared<const AnswerGrammar>(std::move(answer));
  const MutexLock lock(mutex_);
  kept_.emplace_front(std::move(digest), made);
  uint64_t bytes = 0;
  for (const auto& [name, one] : kept_) bytes += one->grammar->bytes();
  for (; kept_.size() > kKeptGrammars || (bytes > kKeptBytes && kept_.size() > 1); kept_.pop_back())
    bytes -= kept_.back().second->grammar->bytes();
  return std::shared_ptr<const AnswerGrammar>(std::move(made));
}

AnswerConstraint::AnswerConstraint(std::shared_ptr<const AnswerGrammar> grammar, const Tokenizer& tokenizer,
                                   const ChatDialect& dialect, Thought thought, std::vector<int32_t> ends)
    : grammar_(std::move(grammar)),
      tokenizer_(&tokenizer),
      ends_(std::move(ends)),
      answer_(grammar_->grammar, grammar_->trie, ends_, grammar_->markers, grammar_->room) {
  if (grammar_->opens) {
    place_ = Place::free;
    return;
  }
  if (!thought.begun && !thought.allowed) return;
  close_ = tokenizer.find(dialect.close);
  if (!close_) return;  // no token would end the thought
  if (thought.allowed) open_ = tokenizer.find(dialect.open);
  if (dialect.own_lines)
    for (int32_t token = 0; token < tokenizer.size(); ++token)
      if (tokenizer.bytes(token) == "\n" || tokenizer.bytes(token) == "\n\n") line_ends_.push_back(token);
  if (thought.begun) place_ = Place::thought;
}

Result<std::span<const uint32_t>> AnswerConstraint::mask() {
  if (place_ == Place::free) return std::span<const uint32_t>();
  if (place_ == Place::thought) return thought_mask();
  TRY(const std::span<const uint32_t> own, answer_.allowed());
  if (place_ == Place::answer || (place_ == Place::start && !open_)) return own;
  bits_.assign(own.begin(), own.end());
  if (place_ == Place::start) set_bit(bits_, *open_);
  if (place_ == Place::behind_thought)
    for (const int32_t token : line_ends_) set_bit(bits_, token);
  return std::span<const uint32_t>(bits_);
}

// A token that opens a call ends the thought, too (text/answer_stream.h).
Result<std::span<const uint32_t>> AnswerConstraint::thought_mask() {
  bits_.assign(grammar_->trie->words(), UINT32_MAX);
  for (const int32_t end : ends_) put_bit(bits_, end, false);
  if (grammar_->markers.empty()) return std::span<const uint32_t>(bits_);
  TRY(const std::span<const uint32_t> own, answer_.allowed());
  for (const TokenMarker& marker : grammar_->markers) put_bit(bits_, marker.token, has_bit(own, marker.token));
  return std::span<const uint32_t>(bits_);
}

std::optional<int32_t> AnswerConstraint::forced() {
  return place_ == Place::answer && !samples_always_ ? answer_.only() : std::nullopt;
}

bool AnswerConstraint::is_marker(int32_t token) const {
  return std::ranges::find(grammar_->markers, token, &TokenMarker::token) != grammar_->markers.end();
}

bool AnswerConstraint::accept(int32_t token) {
  if (place_ == Place::free) {
    if (token != grammar_->opens) return true;
    answer_.restart();
    place_ = Place::answer;
  }
  if (place_ == Place::thought && !is_marker(token)) {
    if (token == close_) place_ = Place::behind_thought;
    return std::ranges::find(ends_, token) == ends_.end();
  }
  if (place_ == Place::start && open_ && token == *open_) {
    place_ = Place::thought;
    return true;
  }
  const bool is_line_end = place_ == Place::behind_thought && std::ranges::find(line_ends_, token) != line_ends_.end();
  place_ = Place::answer;
  if (is_line_end) return true;
  const bool is_accepted = answer_.accept(token, tokenizer_->bytes(token));
  if (grammar_->opens && answer_.can_end()) place_ = Place::free;  // the call is closed
  return is_accepted;
}

}  // namespace sluice

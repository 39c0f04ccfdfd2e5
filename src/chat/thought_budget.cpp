#include "chat/thought_budget.h"

#include <utility>

#include "text/grammar/token_trie.h"

namespace sluice {
namespace {

// A token that opens a call ends a thought, too (text/answer_stream.h).
struct Markers {
  int32_t open = -1, close = -1;
  int32_t call_open = -1, call_close = -1;  // -1: none
};

// Where an answer is, and what is left of its budget.
struct State {
  enum class Place : uint8_t { answer, thought, call };

  uint32_t left = 0;
  Place place = Place::answer;

  bool must_close() const { return place == Place::thought && left == 0; }
  void take(int32_t token, const Markers& markers) {
    if (token == markers.call_open) {
      place = Place::call;
    } else if (place == Place::call) {
      if (token == markers.call_close) place = Place::answer;
    } else if (token == markers.open) {
      place = Place::thought;
    } else if (token == markers.close) {
      place = Place::answer;
    } else if (place == Place::thought) {
      --left;
    }
  }
};

class ThoughtBudget final : public Constraint {
 public:
  ThoughtBudget(uint32_t budget, Markers markers, bool begun, size_t vocabulary, std::shared_ptr<Constraint> inner)
      : at_{.left = budget, .place = begun ? State::Place::thought : State::Place::answer},
        markers_(markers),
        inner_(std::move(inner)),
        close_((vocabulary + 31) / 32) {
    set_bit(close_, markers_.close);
  }

  Result<std::span<const uint32_t>> mask() override {
    if (at_.must_close()) return std::span<const uint32_t>(close_);
    return inner_ == nullptr ? std::span<const uint32_t>() : inner_->mask();
  }

  std::optional<int32_t> forced() override {
    if (at_.must_close()) return markers_.close;
    return inner_ == nullptr ? std::nullopt : inner_->forced();
  }

  std::optional<size_t> free_guesses(std::span<const int32_t> guesses) const override {
    std::optional<size_t> of_inner = guesses.size();
    if (inner_ != nullptr) of_inner = inner_->free_guesses(guesses);
    if (!of_inner) return std::nullopt;
    if (at_.must_close()) return 0;
    State behind = at_;
    for (size_t i = 0; i < *of_inner; ++i) {
      behind.take(guesses[i], markers_);
      if (behind.must_close()) return i;
    }
    return of_inner;
  }

  bool accept(int32_t token) override {
    if (at_.must_close() && token != markers_.close) return false;
    at_.take(token, markers_);
    return inner_ == nullptr || inner_->accept(token);
  }

 private:
  State at_;
  const Markers markers_;
  std::shared_ptr<Constraint> inner_;
  TokenBits close_;  // that token alone
};

}  // namespace

std::shared_ptr<Constraint> bound_thought(uint32_t budget, const Tokenizer& tokenizer, const ChatDialect& dialect,
                                          const ToolSyntax* calls, bool begun, std::shared_ptr<Constraint> inner) {
  if (dialect.open.empty()) return inner;
  const std::optional<int32_t> open = tokenizer.find(dialect.open), close = tokenizer.find(dialect.close);
  if (!open || !close) return inner;
  Markers markers{.open = *open, .close = *close};
  if (calls != nullptr) {
    const std::optional<int32_t> call_open = tokenizer.find(calls->open), call_close = tokenizer.find(calls->close);
    if (call_open && call_close) {
      markers.call_open = *call_open;
      markers.call_close = *call_close;
    }
  }
  return std::make_shared<ThoughtBudget>(budget, markers, begun, static_cast<size_t>(tokenizer.size()),
                                         std::move(inner));
}

}  // namespace sluice

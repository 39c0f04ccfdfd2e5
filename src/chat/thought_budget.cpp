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

class ThoughtBudget final : public Constraint {
 public:
  ThoughtBudget(uint32_t budget, Markers markers, bool begun, size_t vocabulary, std::shared_ptr<Constraint> inner)
      : left_(budget), markers_(markers), inner_(std::move(inner)), close_((vocabulary + 31) / 32) {
    set_bit(close_, markers_.close);
    if (begun) place_ = Place::thought;
  }

  Result<std::span<const uint32_t>> mask() override {
    if (must_close()) return std::span<const uint32_t>(close_);
    return inner_ == nullptr ? std::span<const uint32_t>() : inner_->mask();
  }

  std::optional<int32_t> forced() override {
    if (must_close()) return markers_.close;
    return inner_ == nullptr ? std::nullopt : inner_->forced();
  }

  bool accept(int32_t token) override {
    if (must_close() && token != markers_.close) return false;
    if (token == markers_.call_open) {
      place_ = Place::call;
    } else if (place_ == Place::call) {
      if (token == markers_.call_close) place_ = Place::answer;
    } else if (token == markers_.open) {
      place_ = Place::thought;
    } else if (token == markers_.close) {
      place_ = Place::answer;
    } else if (place_ == Place::thought) {
      --left_;
    }
    return inner_ == nullptr || inner_->accept(token);
  }

 private:
  enum class Place : uint8_t { answer, thought, call };

  bool must_close() const { return place_ == Place::thought && left_ == 0; }

  uint32_t left_;
  const Markers markers_;
  std::shared_ptr<Constraint> inner_;
  TokenBits close_;  // that token alone
  Place place_ = Place::answer;
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

// Refusal: why a request gets no answer, before it is written in the shape of its API. Outcome<T> is a Result with a
// Refusal in place of an Error; the TRY macros take both, and an Error becomes a Refusal by its kind.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "base/result.h"

namespace sluice {

struct Refusal {
  int status = 400;
  std::string message = {};  // one line, as Error::text
  std::string param = {};    // the field of the request that is at fault; "": none
  std::string code = {};     // OpenAI's, such as "context_length_exceeded"; "": none
  bool retry = false;        // the same request may succeed later
};

// refuse("temperature", "temperature is ", 3, ": want a number from 0 to 2")
template <class... Parts>
[[nodiscard]] Refusal refuse(const std::string& param, const Parts&... parts) {
  return {.message = cat(parts...), .param = param};
}

Refusal refusal_of(const Error& error);
// Of a server that drains.
Refusal ends_soon();

template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Outcome(Refusal refusal)
      : state_(std::in_place_index<1>, std::move(refusal)) {}  // NOLINT(google-explicit-constructor)
  Outcome(const Error& error) : Outcome(refusal_of(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const Refusal& error() const& {
    CHECK(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }
  Refusal&& error() && {
    CHECK(state_.index() == 1);
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  T& value() {
    CHECK(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Refusal> state_;
};

struct Fine {};
using Checked = Outcome<Fine>;  // as Status

}  // namespace sluice

// Result<T> is a value, or an Error with one sentence that a person can act on.
//
// Parsing, I/O and device calls return errors as values; programming mistakes are CHECKs (check.h). Nothing in src/
// throws, because the same sources compile for wasm without exceptions. The type is Sluice's own, because std::expected
// is C++23, which nvcc and the library of g++ 12 do not support completely.
//
//   Result<Config> read_config(std::string_view text) {
//     TRY(const Json json, parse_json(text));        // declares json, or returns the error
//     TRY_STATUS(check_version(json));               // for Status
//     return Config{...};
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace sluice {

enum class ErrorKind : uint8_t { not_found, corrupt, unsupported, out_of_memory, invalid, io, cancelled };

// `text` is one line without a full stop: "where: found X: want Y".
struct Error {
  ErrorKind kind = ErrorKind::invalid;
  std::string text;
};

// error(ErrorKind::corrupt, path, ": magic is ", found, ": want GGUF")
template <class... Parts>
[[nodiscard]] Error error(ErrorKind kind, const Parts&... parts) {
  return Error{kind, cat(parts...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  Result(Error failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return ok(); }
  bool ok() const { return value_.has_value(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    CHECK(!ok());
    return failure_;
  }
  Error&& error() && {
    CHECK(!ok());
    return std::move(failure_);
  }

 private:
  T& value() {
    CHECK(ok());
    return *value_;
  }
  const T& value() const {
    CHECK(ok());
    return *value_;
  }

  // Not a std::variant: the compiler would make one for each T, and each costs it far more than an optional.
  std::optional<T> value_;
  Error failure_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return !failure_; }
  bool ok() const { return !failure_; }
  const Error& error() const& {
    CHECK(failure_.has_value());
    return *failure_;
  }
  Error&& error() && {
    CHECK(failure_.has_value());
    return std::move(*failure_);
  }

 private:
  std::optional<Error> failure_;
};

using Status = Result<void>;

}  // namespace sluice

#define SLUICE_JOIN_(a, b) a##b
#define SLUICE_JOIN(a, b) SLUICE_JOIN_(a, b)
#define SLUICE_TRY_(temporary, declaration, ...)       \
  auto temporary = (__VA_ARGS__);                      \
  if (!temporary) return std::move(temporary).error(); \
  declaration = *std::move(temporary)

// TRY(declaration, expression): declares a variable with the value of a Result, or returns its error from this
// function. It expands to two statements, so a branch of one statement needs TRY_ASSIGN.
#define TRY(declaration, ...) SLUICE_TRY_(SLUICE_JOIN(try_result_, __COUNTER__), declaration, __VA_ARGS__)

// TRY_ASSIGN(variable, expression): the same for an existing variable. It is one statement.
#define TRY_ASSIGN(variable, ...)                          \
  do {                                                     \
    auto try_result = (__VA_ARGS__);                       \
    if (!try_result) return std::move(try_result).error(); \
    variable = *std::move(try_result);                     \
  } while (false)

// TRY_STATUS(expression): returns the error of a Status (or of any Result, whose value is dropped).
#define TRY_STATUS(...)                                    \
  do {                                                     \
    auto try_status = (__VA_ARGS__);                       \
    if (!try_status) return std::move(try_status).error(); \
  } while (false)

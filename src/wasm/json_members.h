// Members of the JSON objects that a page gives, by name; what is left out has the value `otherwise`. Each fails with
// one sentence when the member is of another kind.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sluice::wasm {

Result<std::string> text_of(const Json& object, std::string_view name, std::string_view otherwise);
Result<bool> flag_of(const Json& object, std::string_view name, bool otherwise);
Result<uint64_t> bytes_of(const Json& object, std::string_view name);  // 0: left out
// A string stands for an array of it.
Result<std::vector<std::string>> strings_of(const Json& object, std::string_view name);

// `name` is for the error.
template <class T>
Result<T> number_of(const Json& json, std::string_view name) {
  constexpr auto kLeast = std::numeric_limits<T>::lowest(), kMost = std::numeric_limits<T>::max();
  if (json.is_number() && json.as_number() >= static_cast<double>(kLeast) &&
      json.as_number() <= static_cast<double>(kMost)) {
    return static_cast<T>(json.as_number());
  }
  return error(ErrorKind::invalid, name, ": found ", write_json(json), ": want a number from ", kLeast, " to ", kMost);
}

template <class T>
Result<T> number_of(const Json& object, std::string_view name, T otherwise) {
  const Json* member = object.find(name);
  return member == nullptr ? Result<T>(otherwise) : number_of<T>(*member, name);
}

// One within limits.
template <class T>
Result<T> number_of(const Json& object, std::string_view name, T otherwise, T least, T most) {
  TRY(const T number, number_of<T>(object, name, otherwise));
  if (number >= least && number <= most) return number;
  return error(ErrorKind::invalid, name, ": found ", number, ": want a number from ", least, " to ", most);
}

template <class T>
Result<std::vector<T>> numbers_of(const Json& object, std::string_view name) {
  std::vector<T> numbers;
  const Json* member = object.find(name);
  if (member == nullptr) return numbers;
  if (!member->is_array()) return error(ErrorKind::invalid, name, ": is no array: want one of numbers");
  for (const Json& one : member->as_array()) {
    TRY(const T number, number_of<T>(one, name));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace sluice::wasm

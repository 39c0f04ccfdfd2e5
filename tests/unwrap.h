// The value of a Result in a test; of an error, the failure of that test with the error's sentence.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/result.h"

namespace sluice {

template <class T>
T unwrap(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);  // googletest fails the test with it
  return *std::move(result);
}

inline void unwrap(const Status& status) {
  if (!status) throw std::runtime_error(status.error().text);
}

}  // namespace sluice

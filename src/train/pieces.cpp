#include "train/pieces.h"

#include <algorithm>

namespace sluice {

std::vector<TensorPiece> pieces_of(std::span<const std::vector<float>> tensors) {
  constexpr size_t kPiece = 1u << 15;  // some 100 us of the optimizer
  std::vector<TensorPiece> pieces;
  for (size_t t = 0; t < tensors.size(); ++t)
    for (size_t first = 0; first < tensors[t].size(); first += kPiece)
      pieces.push_back({.tensor = t, .first = first, .end = std::min(first + kPiece, tensors[t].size())});
  return pieces;
}

}  // namespace sluice

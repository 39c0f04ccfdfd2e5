// The numbers of many tensors in pieces that threads take. Their borders follow from the tensors' sizes alone, so what
// is computed by pieces does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"

namespace sluice {

struct TensorPiece {
  size_t tensor = 0;
  size_t first = 0, end = 0;  // of its numbers
};

std::vector<TensorPiece> pieces_of(std::span<const std::vector<float>> tensors);

// Calls body(i, piece) for each piece, on any thread.
template <class Body>
void each_piece(ThreadPool& pool, std::span<const TensorPiece> pieces, const Body& body) {
  pool.parallel(pieces.size(), 0, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i) body(i, pieces[i]);
  });
}

}  // namespace sluice

#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace sluice {

double clip_gradients(std::span<std::vector<float>> gradients, double clip, ThreadPool& pool) {
  const std::vector<TensorPiece> pieces = pieces_of(gradients);
  std::vector<double> squares(pieces.size());
  each_piece(pool, pieces, [&](size_t i, const TensorPiece& piece) {
    double sum = 0;
    for (size_t n = piece.first; n < piece.end; ++n) {
      const double one = gradients[piece.tensor][n];
      sum += one * one;
    }
    squares[i] = sum;
  });
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  const double factor = clip_factor(norm, clip);
  if (factor == 1) return norm;
  each_piece(pool, pieces, [&](size_t, const TensorPiece& piece) {
    for (size_t n = piece.first; n < piece.end; ++n) gradients[piece.tensor][n] *= static_cast<float>(factor);
  });
  return norm;
}

double clip_factor(double norm, double clip) {
  const double factor = clip / (norm + 1e-6);
  return clip <= 0 || !(factor < 1) ? 1 : factor;
}

AdamStep adam_step(const OptimizerOptions& options, uint64_t step, double rate) {
  const auto count = static_cast<double>(step);
  return {.decay = 1 - rate * options.weight_decay,
          .rate = rate / (1 - std::pow(options.beta1, count)),
          .root = std::sqrt(1 - std::pow(options.beta2, count))};
}

double scheduled_rate(double rate, uint64_t step, uint64_t warm_up, uint64_t steps) {
  if (step < warm_up) return rate * static_cast<double>(step) / static_cast<double>(warm_up);
  if (steps <= warm_up) return rate;
  const double progress = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  return rate * 0.5 * (1 + std::cos(std::numbers::pi * std::min(progress, 1.0)));
}

Optimizer::Optimizer(const OptimizerOptions& options, std::span<const StoredFactor> tensors) : options_(options) {
  if (!options.adam) return;
  for (const StoredFactor& tensor : tensors) {
    means_.emplace_back(tensor.numbers.size());
    squares_.emplace_back(tensor.numbers.size());
  }
}

uint64_t Optimizer::bytes(const OptimizerOptions& options, uint64_t elements) {
  return options.adam ? 2 * elements * sizeof(float) : 0;
}

void Optimizer::restore(uint64_t steps, std::vector<std::vector<float>> means,
                        std::vector<std::vector<float>> squares) {
  CHECK(means.size() == means_.size() && squares.size() == squares_.size());
  steps_ = steps;
  means_ = std::move(means);
  squares_ = std::move(squares);
}

void Optimizer::step(std::span<StoredFactor> tensors, std::span<const std::vector<float>> gradients, double rate,
                     ThreadPool& pool) {
  ++steps_;
  each_piece(pool, pieces_of(gradients), [&](size_t, const TensorPiece& piece) {
    float* const numbers = tensors[piece.tensor].numbers.data();
    const float* const gradient = gradients[piece.tensor].data();
    if (options_.adam) return adam(piece, numbers, gradient, rate);
    for (size_t i = piece.first; i < piece.end; ++i) numbers[i] -= static_cast<float>(rate) * gradient[i];
  });
}

void Optimizer::adam(const TensorPiece& piece, float* numbers, const float* gradient, double rate) {
  const AdamStep step = adam_step(options_, steps_, rate);
  const auto decay = static_cast<float>(step.decay);
  const auto beta1 = static_cast<float>(options_.beta1), beta2 = static_cast<float>(options_.beta2);
  float* const means = means_[piece.tensor].data();
  float* const squares = squares_[piece.tensor].data();
  for (size_t i = piece.first; i < piece.end; ++i) {
    means[i] += (gradient[i] - means[i]) * (1 - beta1);
    squares[i] = squares[i] * beta2 + (1 - beta2) * gradient[i] * gradient[i];
    const double root = std::sqrt(static_cast<double>(squares[i])) / step.root + options_.eps;
    numbers[i] = numbers[i] * decay - static_cast<float>(step.rate * static_cast<double>(means[i]) / root);
  }
}

}  // namespace sluice

// Factors that a device trains: it adds up their gradients and computes the optimizer in its own memory, so that no
// step reads gradients back or uploads factors.
//
//   for each part of a batch   Runner::start() with StartOptions::add_gradients
//   sum_squares()              for the norm of all gradients
//   update()                   the weights are new for every later step
//   clear_gradients()
//
// Calls and steps take effect in their order, and nothing here waits. A factor's numbers are in the order of its
// weights' rows, those of all experts one behind another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/program.h"

namespace sluice {

using Ticket = uint64_t;

// Numbers that are trained: those of a weight of the plan in f32, or of several of one shape. The gradient is the sum
// of theirs, in their order.
struct TrainedFactor {
  struct Place {
    WeightId weight = kNone;
    ValueId gradient = kNone;  // an output of the program, f32 [experts x rows one, columns]
  };
  std::vector<Place> places{};  // at least one
};

// What the device keeps of each number. Means and squares are AdamW's state, 0 at first.
enum class TrainedTable : uint8_t { gradients, numbers, means, squares };
inline constexpr uint32_t kTrainedTables = 4;

// A step of AdamW (Loshchilov and Hutter 2017, arXiv:1711.05101) for every number w with gradient g:
//   g *= clip
//   mean += (1 - beta1) (g - mean)
//   square = beta2 square + (1 - beta2) g^2
//   w = decay w - rate mean / (sqrt(square) / root + eps)
struct FactorUpdate {
  float clip = 1;
  float beta1 = 0, beta2 = 0;
  float decay = 1;
  float rate = 0;  // divided by 1 - beta1^t in step t, from 1
  float root = 1;  // sqrt(1 - beta2^t)
  float eps = 0;
};

class TrainedMemory {
 public:
  virtual ~TrainedMemory() = default;
  // The next gradients are the first of a sum.
  virtual void clear_gradients() = 0;
  // Sums of the squares of gradients, each of some numbers of one factor; `sums` has sums() of them. A gradient that is
  // not finite makes its sum not finite.
  virtual size_t sums() const = 0;
  virtual Ticket sum_squares(std::span<float> sums) = 0;
  virtual Ticket update(const FactorUpdate& update) = 0;
  // All of a table, by factor of PlanRequest::trained. Numbers are written before the first update, and whenever
  // weights are reloaded: write() leaves the weights as they are.
  virtual Ticket read(TrainedTable table, std::span<const std::span<float>> into) = 0;
  virtual void write(TrainedTable table, std::span<const std::span<const float>> from) = 0;
};

}  // namespace sluice

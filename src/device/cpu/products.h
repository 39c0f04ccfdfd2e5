// Matrix products on the pool's threads: which kernel, which form of the activations, which thread which outputs.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/memory.h"
#include "device/cpu/share_out.h"

namespace sluice::cpu {

// Rows to multiply: f32 and, where a weight of theirs takes them, 8-bit blocks.
struct Activations {
  const float* x = nullptr;
  uint64_t rows = 0;
  uint32_t columns = 0;
  const std::byte* quantised = nullptr;
};

struct Product {
  ProductKernel kernel = nullptr;
  ProductArgs args;
  uint32_t outputs = 0;
};

// out = kind(gate) * up, in rows as long as gate's; out may be where gate lies.
struct GatedProduct {
  Product gate, up;
  float* out = nullptr;
};

// out += scale of the row * product: the product's `out` is what is added to.
struct AddedProduct {
  Product product;
  const float* scales = nullptr;  // of the product's rows
};
class Products {
 public:
  Products(const CpuPlan& plan, const Memory& memory, ThreadPool& pool) : plan_(plan), memory_(memory), pool_(pool) {}

  // The rows in the forms that these weights want. The 8-bit blocks lie in scratch until the next call.
  Activations prepare(const float* x, uint64_t rows, std::span<const WeightId> weights) const;
  // Rows [first, first + count) alone: those prepared before stay, as long as the weights are as wide.
  Activations prepare_part(const float* x, uint64_t first, uint64_t count, std::span<const WeightId> weights) const;
  Product product(const Activations& x, WeightId weight, float* out, uint32_t expert = 0) const;
  // With rows that are f32 whatever the arithmetic is.
  Product product_of_reals(const float* x, uint64_t rows, WeightId weight, float* out, uint32_t expert) const;
  // The same weight for `count` of the rows.
  static Product part(Product product, uint64_t first_row, uint64_t count);

  // On the calling thread: outputs [first, last).
  void multiply(const Product& product, uint64_t first, uint64_t last, uint32_t thread) const;
  // All of them in one loop.
  void multiply(std::span<const Product> products) const;
  void multiply(std::span<const GatedProduct> products, ActivationKind kind) const;
  void multiply(std::span<const AddedProduct> products) const;

 private:
  const CpuPlan& plan_;
  const Memory& memory_;
  ThreadPool& pool_;
};

}  // namespace sluice::cpu

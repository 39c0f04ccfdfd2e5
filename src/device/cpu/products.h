// Matrix products on the pool's threads. Products chooses the kernel and the form of the activations, and splits the
// outputs.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/memory.h"
#include "device/cpu/share_out.h"

namespace sluice::cpu {

// Rows to multiply: f32, and 8-bit blocks or bf16 if a weight takes them.
struct Activations {
  const float* x = nullptr;
  uint64_t rows = 0;
  uint32_t columns = 0;
  const std::byte* quantised = nullptr;
  const std::byte* bf16 = nullptr;
};

struct Product {
  ProductKernel kernel = nullptr;
  ProductArgs args;
  uint32_t outputs = 0;
};

// out = kind(gate) * up, with gate's row length. `out` may equal gate's results.
struct GatedProduct {
  Product gate, up;
  float* out = nullptr;
};

// product.args.out += the row's scale * the product.
struct AddedProduct {
  Product product;
  const float* scales = nullptr;  // of the product's rows
};
class Products {
 public:
  Products(const CpuPlan& plan, const Memory& memory, ThreadPool& pool) : plan_(plan), memory_(memory), pool_(pool) {}

  // The rows in the forms that these weights take. All but f32 lie in scratch until the next call.
  Activations prepare(const float* x, uint64_t rows, std::span<const WeightId> weights) const;
  // Prepares rows [first, first + count) only. Rows prepared before stay valid if the weights have the same width.
  Activations prepare_part(const float* x, uint64_t first, uint64_t count, std::span<const WeightId> weights) const;
  Product product(const Activations& x, WeightId weight, float* out, uint32_t expert = 0) const;
  // A product with f32 rows in any arithmetic.
  Product product_of_reals(const float* x, uint64_t rows, WeightId weight, float* out, uint32_t expert) const;
  // The product for `count` of its rows.
  static Product part(Product product, uint64_t first_row, uint64_t count);

  // Computes outputs [first, last) on the calling thread.
  void multiply(const Product& product, uint64_t first, uint64_t last, uint32_t thread) const;
  // Compute all products in one loop of the pool.
  void multiply(std::span<const Product> products) const;
  void multiply(std::span<const GatedProduct> products, ActivationKind kind) const;
  void multiply(std::span<const AddedProduct> products) const;
  // Outputs [first, last) of one product, on one thread.
  void add(const AddedProduct& one, uint64_t first, uint64_t last, uint32_t thread) const;

 private:
  const CpuPlan& plan_;
  const Memory& memory_;
  ThreadPool& pool_;
};

}  // namespace sluice::cpu

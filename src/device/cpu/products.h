// Matrix products on the pool's threads. Products chooses the kernel and the form of the activations, and splits the
// outputs.
#pragma once

#include <span>
#include <vector>

#include "base/shared_parts.h"
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

// The second product of an adapter: args.out += the row's scale * the product, for some rows of another product.
struct Addition {
  AddKernel kernel = nullptr;
  ProductArgs args;
  const float* scales = nullptr;  // of these rows
};

struct Product {
  ProductKernel kernel = nullptr;
  ProductArgs args;
  uint32_t outputs = 0;
  uint32_t block_rows = 0;                // rows that meet all outputs before the next rows do; 0: all
  std::span<const Addition> additions{};  // to its results
};

// A place for results: output o of row r lies at out[r stride + o].
struct Results {
  float* out = nullptr;
  uint64_t stride = 0;
};

// out = kind(gate) * up, with gate's row length. `out` may equal gate's results.
struct GatedProduct {
  Product gate, up;
  float* out = nullptr;
};

// The first products of adapters, which the additions of the same loop need. Each thread that begins a piece of the
// loop takes parts of them until none is left, so they are computed beside the loop's own products; before it adds, it
// waits for the parts that other threads have taken.
class FirstProducts {
 public:
  void clear();
  void add(const Product& product);

  // Calls body(product, first output, last output) for parts that nobody has taken yet.
  template <class Body>
  void take(const Body& body) {
    shared_.take([&](size_t i) { body(parts_[i].product, parts_[i].first, parts_[i].last); });
  }
  void wait() { shared_.wait(); }

 private:
  struct Part {
    Product product;
    uint64_t first = 0, last = 0;  // outputs
  };
  std::vector<Part> parts_;
  SharedParts shared_;
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
  // A second product for rows `first_row` to `first_row + count` of `inner`, added to the same rows of `out`.
  Addition addition(const float* inner, WeightId weight, float* out, const float* scales, uint32_t expert,
                    uint64_t first_row, uint64_t count) const;
  // The product for `count` of its rows, without additions.
  static Product part(Product product, uint64_t first_row, uint64_t count);

  // The first products that the additions of the next loop need. Call begin_first() before first() and the loop.
  void begin_first() { first_.clear(); }
  void first(const Product& product) { first_.add(product); }
  // Each thread's piece of a loop of products with additions begins with this.
  void take_first(uint32_t thread);

  // Computes outputs [first, last) on the calling thread. The results go to `to` instead of the product's own place.
  void multiply(const Product& product, const Results& to, uint64_t first, uint64_t last, uint32_t thread);
  // Compute all products in one loop of the pool.
  void multiply(std::span<const Product> products);
  void multiply(std::span<const GatedProduct> products, ActivationKind kind);

 private:
  const CpuPlan& plan_;
  const Memory& memory_;
  ThreadPool& pool_;
  FirstProducts first_;
};

}  // namespace sluice::cpu

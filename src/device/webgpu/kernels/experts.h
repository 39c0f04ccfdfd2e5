// Kernels of an op `experts`: for rows one by one (ops_experts.cpp), or for an expert's rows in tiles
// (ops_expert_tiles.cpp). Bindings and decoders of the weights are added elsewhere. The texts call functions that find
// an expert in the bound weights: place_of(expert), first_of_gate(place), first_of_up and first_of_down.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/integer_tiles.h"
#include "device/webgpu/kernels/products.h"

namespace sluice::webgpu {

// The experts in a tile of a weight, or the slots in a buffer of slots.
struct PlaceRange {
  uint32_t first = 0, end = 0;
};
// The experts of a tile of whole matrices, each of `rows` rows.
inline PlaceRange experts_of(const WeightTile& tile, uint32_t rows) {
  return {static_cast<uint32_t>(tile.first_row / rows), static_cast<uint32_t>((tile.first_row + tile.rows) / rows)};
}

struct Emitter::ExpertsKernels {
  const Emitter& emitter;
  const Experts& op;
  uint32_t hidden = 0, chosen = 0, width = 0, experts = 0;
  bool in_tiles = false;
  // Words of scratch: the activations of each choice (in tiles: as integers, list by list), and each choice's result.
  uint32_t inner = 0, products = 0;
  // For rows one by one: gate and up products; down products of one choice, and of all choices of a row at once.
  ProductShape in{}, out{}, out_at_once{};
  // For tiles, words of scratch: rows as integers, and the lists.
  uint32_t integers = 0, lists = 0;
  // The products' adapters (ops_expert_adapters.cpp): of gate and up, and of down. For tiles, words of scratch: the
  // activations of each choice as f32, which down's adapter multiplies.
  std::array<AdaptedProduct, 2> inward_adapters{};
  std::array<AdaptedProduct, 1> outward_adapter{};
  uint32_t reals = 0;

  // Whether rows and results can be read and written four words at once.
  bool fours() const {
    return hidden % 4 == 0 && width % 4 == 0 && emitter.at(op.x) % 4 == 0 && emitter.at(op.out) % 4 == 0;
  }
  Kernel inward(const PlaceRange& places) const;         // writes `inner`
  Kernel outward(const PlaceRange& places) const;        // writes `products`
  Kernel added() const;                                  // adds `products`
  Kernel outward_added(const PlaceRange& places) const;  // both, for rows one by one
  Kernel listed() const;                                 // for tiles: lists the choices whose expert has a place
  uint64_t list_words(uint64_t choices) const;
  std::string weight_decoder(WeightId id, const char* name, Rows rows) const;
  AdaptedRows inward_rows() const;
  AdaptedRows outward_rows() const;

 private:
  // Declares what adapted_sums() needs.
  void use_adapters(Kernel& kernel, std::span<const AdaptedProduct> adapted, const AdaptedRows& rows) const;
  // Text for the sums (a vec4f) of four neighbouring outputs of a choice, with the i-th product's adapter.
  static std::string adapted_sums(std::span<const AdaptedProduct> adapted, size_t i, const char* choice,
                                  const char* output, const std::string& sums);
  // For tiles: declares what use_integer_tile() calls for these products, of which it returns those with an adapter.
  std::vector<const char*> use_tile_adapters(Kernel& kernel, std::span<const AdaptedProduct> adapted,
                                             std::span<const char* const> names, const AdaptedRows& rows) const;
  Kernel plain(const char* name, uint64_t blocks, uint64_t times) const;
  void use(Kernel& kernel, const ProductShape& shape, const PlaceRange& places) const;
  // The kernel's text, and within it the row of x, the choice, and its four sums.
  struct OutwardText {
    std::string body;
    const char* x = "";
    const char* choice = "";
    const char* sums = "";
  };
  Kernel outward_products(const PlaceRange& places, const ProductShape& shape, uint64_t times,
                          const OutwardText& text) const;
  uint64_t most_tiles(uint64_t choices) const;
  uint32_t order() const;  // behind the lists
  Kernel of_tiles(const char* name, const IntegerTile& tile, uint32_t outputs, const PlaceRange& places) const;
  Kernel inward_tiles(const PlaceRange& places) const;
  Kernel outward_tiles(const PlaceRange& places) const;
};

}  // namespace sluice::webgpu

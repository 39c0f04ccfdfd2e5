// Kernels of an experts op, without the weights' bindings and decoders: rows one by one (ops_experts.cpp), or an
// expert's rows in tiles (ops_expert_tiles.cpp). Their texts call functions that find experts in the bound weights:
// place_of(expert), first_of_gate(place), first_of_up and first_of_down.
#pragma once

#include "device/webgpu/emitter.h"
#include "device/webgpu/kernels/integer_tiles.h"
#include "device/webgpu/kernels/products.h"

namespace sluice::webgpu {

// Of all experts' rows, the tile's experts; or of all slots, a buffer's.
struct PlaceRange {
  uint32_t first = 0, end = 0;
};

struct Emitter::ExpertsKernels {
  const Emitter& emitter;
  const Experts& op;
  uint32_t hidden = 0, chosen = 0, width = 0, experts = 0;
  bool in_tiles = false;
  // Words of scratch: activations of each choice, in tiles as integers and list by list; what each choice gives;
  uint32_t inner = 0, products = 0;
  ProductShape in{}, out{}, out_at_once{};  // of rows one by one; down products of a choice, and of a row's at once
  // of tiles: rows as integers, the lists.
  uint32_t integers = 0, lists = 0;

  // Whether rows and what they become can be read and written by fours.
  bool fours() const {
    return hidden % 4 == 0 && width % 4 == 0 && emitter.at(op.x) % 4 == 0 && emitter.at(op.out) % 4 == 0;
  }
  Kernel inward(const PlaceRange& places) const;         // writes `inner`
  Kernel outward(const PlaceRange& places) const;        // writes `products`
  Kernel added() const;                                  // adds them
  Kernel outward_added(const PlaceRange& places) const;  // of rows one by one, both
  Kernel listed() const;                                 // of tiles: writes the lists of those that have a place
  uint64_t list_words(uint64_t choices) const;
  std::string weight_decoder(WeightId id, const char* name, Rows rows) const;

 private:
  Kernel plain(const char* name, uint64_t blocks, uint64_t times) const;
  void use(Kernel& kernel, const ProductShape& shape, const PlaceRange& places) const;
  Kernel outward_products(const PlaceRange& places, const ProductShape& shape, uint64_t times, const char* body,
                          const char* x) const;
  uint64_t most_tiles(uint64_t choices) const;
  uint32_t order() const;  // behind the lists
  Kernel of_tiles(const char* name, const IntegerTile& tile, uint32_t outputs, const PlaceRange& places) const;
  Kernel inward_tiles(const PlaceRange& places) const;
  Kernel outward_tiles(const PlaceRange& places) const;
};

}  // namespace sluice::webgpu

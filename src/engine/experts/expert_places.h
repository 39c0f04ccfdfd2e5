// Where a model's experts lie in its files, and where each of its pieces comes to lie in a slot.
//
// An expert is gate, up and down, each a run of bytes at any offset, some with large parts beside them (expert_pieces).
// Reads past the page cache begin and end at multiples of 4096, so that a slot has room for whole blocks; pieces whose
// blocks touch are one read. Three tensors of their own, as most GGUF files have them, are three reads; gate and up in
// one tensor are one of two; experts packed together are one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace sluice {

struct WeightFiles {
  std::vector<std::string> paths{};
  // Of a byte of a weight; none where it lies in no file.
  std::function<std::optional<FilePlace>(const StoredAt&)> place{};
};

// Blocks of a file that are read into a slot together.
struct ExpertRead {
  FilePlace from{};
  uint64_t bytes = 0;   // whole blocks, the last of which may lie beyond the file's end
  uint64_t needed = 0;  // of them
  uint64_t at = 0;      // in the slot
};

struct ExpertPlace {
  std::vector<ExpertRead> reads{};
  std::vector<uint64_t> pieces{};  // offsets in the slot, in the order of ExpertMemory::fill
};

// As ExpertMemory takes them, of an expert that was read to `memory`.
std::vector<const std::byte*> pieces_of(const ExpertPlace& place, std::span<const std::byte> memory);

class ExpertPlaces {
 public:
  // Fails where experts lie in no file, or the program has none.
  static Result<ExpertPlaces> find(const Program& program, const WeightSource& weights, const WeightFiles& files);

  // Ops `experts` are layers here, in the program's order.
  uint32_t layers() const { return static_cast<uint32_t>(layers_.size()); }
  uint32_t experts() const { return experts_; }  // of a layer, the most that one has
  uint32_t experts(uint32_t layer) const { return layers_[layer].experts; }
  uint32_t op(uint32_t layer) const { return layers_[layer].op; }
  uint32_t layer_of(uint32_t op) const;
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t total_experts() const;
  const std::vector<std::string>& paths() const { return files_.paths; }
  ExpertPlace place(uint32_t layer, uint32_t expert) const;

 private:
  struct Layer {
    uint32_t op = 0;
    uint32_t experts = 0;
    std::vector<TensorSource> weights{};  // gate, up, down
  };

  WeightFiles files_;
  std::vector<Layer> layers_;
  uint32_t experts_ = 0;
  uint64_t slot_bytes_ = 0;
};

}  // namespace sluice

// The places of a model's experts in its files, and the place of each of their pieces in a slot.
//
// An expert is gate, up and down. Each is a run of bytes at any offset; some have large parts beside them
// (expert_pieces). Reads past the page cache begin and end at multiples of 4096, so a slot has room for whole blocks.
// Pieces whose blocks touch are one read. An expert takes three reads where gate, up and down are three tensors, as in
// most GGUF files, two where gate and up share a tensor, and one in packed files.
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
  // The file position of a byte of a weight; none if it lies in no file.
  std::function<std::optional<FilePlace>(const StoredAt&)> place{};
};

// Blocks of a file that are read into a slot together.
struct ExpertRead {
  FilePlace from{};
  uint64_t bytes = 0;   // whole blocks; the last one may reach beyond the file's end
  uint64_t needed = 0;  // the bytes of them that matter
  uint64_t at = 0;      // offset in the slot
};

struct ExpertPlace {
  std::vector<ExpertRead> reads{};
  std::vector<uint64_t> pieces{};  // offsets in the slot, in the order of ExpertMemory::fill
};

// The pieces of an expert that was read to `memory`, as ExpertMemory takes them.
std::vector<const std::byte*> pieces_of(const ExpertPlace& place, std::span<const std::byte> memory);

class ExpertPlaces {
 public:
  // Fails if experts lie in no file, or the program has none.
  static Result<ExpertPlaces> find(const Program& program, const WeightSource& weights, const WeightFiles& files);

  // Ops `experts` are layers here, in the program's order.
  uint32_t layers() const { return static_cast<uint32_t>(layers_.size()); }
  uint32_t experts() const { return experts_; }  // of a layer, the largest number
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

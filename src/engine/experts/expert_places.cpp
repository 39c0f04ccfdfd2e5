#include "engine/experts/expert_places.h"

#include <algorithm>

#include "base/files/read_queue.h"

namespace sluice {
namespace {

static_assert(kSlotAlignment % kReadAlignment == 0);

uint64_t blocks_below(uint64_t offset) { return offset / kReadAlignment * kReadAlignment; }
uint64_t blocks_above(uint64_t offset) { return blocks_below(offset + kReadAlignment - 1); }

struct Piece {
  size_t index = 0;  // in the order of ExpertMemory::fill
  FilePlace from{};
  uint64_t bytes = 0;
};

bool touches(const ExpertRead& read, const Piece& piece) {
  return read.from.file == piece.from.file && blocks_below(piece.from.offset) <= read.from.offset + read.bytes;
}

// Joins pieces, which come in the order of the files, to reads.
ExpertPlace lay_out(const std::vector<Piece>& pieces) {
  ExpertPlace place{.reads = {}, .pieces = std::vector<uint64_t>(pieces.size())};
  for (const Piece& piece : pieces) {
    if (place.reads.empty() || !touches(place.reads.back(), piece)) {
      const uint64_t at = place.reads.empty() ? 0 : place.reads.back().at + place.reads.back().bytes;
      place.reads.push_back({.from = {piece.from.file, blocks_below(piece.from.offset)}, .at = at});
    }
    ExpertRead& read = place.reads.back();
    const uint64_t begin = piece.from.offset - read.from.offset;
    read.needed = std::max(read.needed, begin + piece.bytes);
    read.bytes = blocks_above(read.needed);
    place.pieces[piece.index] = read.at + begin;
  }
  return place;
}

}  // namespace

std::vector<const std::byte*> pieces_of(const ExpertPlace& place, std::span<const std::byte> memory) {
  std::vector<const std::byte*> pieces;
  pieces.reserve(place.pieces.size());
  for (const uint64_t at : place.pieces) pieces.push_back(memory.data() + static_cast<size_t>(at));
  return pieces;
}

Result<ExpertPlaces> ExpertPlaces::find(const Program& program, const WeightSource& weights, const WeightFiles& files) {
  ExpertPlaces places;
  places.files_ = files;
  for (uint32_t op = 0; op < program.ops.size(); ++op) {
    const auto* experts = std::get_if<Experts>(&program.ops[op]);
    if (experts == nullptr) continue;
    Layer layer{.op = op, .experts = program.weights[experts->gate].shape.experts};
    for (const WeightId id : {experts->gate, experts->up, experts->down}) {
      const std::string& name = program.weights[id].name;
      TRY(TensorSource source, weights.find(name));
      for (uint32_t expert = 0; expert < layer.experts; ++expert)
        for (const ExpertPiece& piece : expert_pieces(source))
          if (!files.place || !files.place(piece_bytes(source, piece, expert)))
            return error(ErrorKind::unsupported, name, ": lies in no file: want one to read experts from");
      layer.weights.push_back(std::move(source));
    }
    places.experts_ = std::max(places.experts_, layer.experts);
    places.layers_.push_back(std::move(layer));
  }
  if (places.layers_.empty()) return error(ErrorKind::invalid, "experts: the model has none: want no memory for them");
  for (uint32_t layer = 0; layer < places.layers(); ++layer)
    for (uint32_t expert = 0; expert < places.experts(layer); ++expert) {
      const ExpertRead last = places.place(layer, expert).reads.back();
      places.slot_bytes_ = std::max(places.slot_bytes_, last.at + last.bytes);
    }
  return places;
}

uint32_t ExpertPlaces::layer_of(uint32_t op) const {
  const auto found = std::ranges::find(layers_, op, &Layer::op);
  CHECK(found != layers_.end());
  return static_cast<uint32_t>(found - layers_.begin());
}

uint64_t ExpertPlaces::total_experts() const {
  uint64_t all = 0;
  for (const Layer& layer : layers_) all += layer.experts;
  return all;
}

ExpertPlace ExpertPlaces::place(uint32_t layer, uint32_t expert) const {
  std::vector<Piece> pieces;
  for (const TensorSource& source : layers_[layer].weights)
    for (const ExpertPiece& piece : expert_pieces(source))
      pieces.push_back(
          {.index = pieces.size(), .from = *files_.place(piece_bytes(source, piece, expert)), .bytes = piece.bytes});
  std::ranges::sort(pieces, [](const Piece& a, const Piece& b) {
    return a.from.file != b.from.file ? a.from.file < b.from.file : a.from.offset < b.from.offset;
  });
  return lay_out(pieces);
}

}  // namespace sluice

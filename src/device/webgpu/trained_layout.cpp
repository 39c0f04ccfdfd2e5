#include "device/webgpu/trained_layout.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "device/webgpu/kernel.h"

namespace sluice::webgpu {
namespace {

constexpr uint64_t kMostNumbers = uint64_t{1} << 22;                // of a piece
constexpr uint64_t kMostBufferBytes = uint64_t{256} << 20;          // if a piece is not larger
constexpr uint64_t kTableWords = 64;                                // a table begins at such a multiple, like a binding
constexpr uint64_t kOtherBytes = 4 * kTrainedTables * kTableWords;  // what rounding adds to a piece, at most

uint64_t table_words(uint64_t count) { return divide_up(count, kTableWords) * kTableWords; }

}  // namespace

uint64_t TrainedLayout::bytes() const {
  return 4 * (std::accumulate(buffer_words.begin(), buffer_words.end(), uint64_t{0}) + sums);
}

TrainedLayout lay_out_trained(const PlanRequest& request, const Layout& layout, const Adapter& adapter) {
  TrainedLayout trained;
  const uint64_t room = std::min({kMostNumbers, (adapter.binding_bytes - kOtherBytes) / 4 / kTrainedTables,
                                  (adapter.buffer_bytes - kOtherBytes) / 4 / kTrainedTables});
  const auto add = [&](TrainedPiece piece) {
    piece.table_words = table_words(piece.count);
    const uint64_t words = kTrainedTables * piece.table_words;
    const uint64_t most = std::max(std::min(kMostBufferBytes, adapter.buffer_bytes) / 4, words);
    if (trained.buffer_words.empty() || trained.buffer_words.back() + words > most) trained.buffer_words.push_back(0);
    piece.buffer = static_cast<uint32_t>(trained.buffer_words.size() - 1);
    piece.word = trained.buffer_words.back();
    piece.first_sum = trained.sums;
    trained.buffer_words.back() += words;
    trained.sums += static_cast<uint32_t>(divide_up(piece.count, kTrainedSumNumbers));
    trained.pieces.push_back(piece);
  };
  for (uint32_t factor = 0; factor < request.trained.size(); ++factor) {
    const std::vector<TrainedFactor::Place>& places = request.trained[factor].places;
    for (const TrainedFactor::Place& place : places)
      CHECK(layout.is_matrix(place.weight) && layout.matrix(place.weight).format == Format::f32 &&
            request.program->weights[place.weight].shape == request.program->weights[places[0].weight].shape);
    const WeightId weight = places[0].weight;
    const uint64_t columns = request.program->weights[weight].shape.columns;
    const uint64_t at_once = std::max<uint64_t>(room / columns, 1);
    const std::vector<WeightTile>& tiles = layout.matrix(weight).tiles;
    for (uint32_t tile = 0; tile < tiles.size(); ++tile)
      for (uint64_t row = 0; row < tiles[tile].rows; row += at_once)
        add({.factor = factor,
             .tile = tile,
             .tile_row = row,
             .first = (tiles[tile].first_row + row) * columns,
             .count = std::min(at_once, tiles[tile].rows - row) * columns});
  }
  return trained;
}

}  // namespace sluice::webgpu

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

std::vector<TrainedRun> TrainedLayout::runs(bool of_weights) const {
  std::vector<TrainedRun> runs;
  const auto belongs = [&](const TrainedEntry& a, const TrainedEntry& b) {
    const bool weights = !of_weights || (a.shared != kNone && a.shared == b.shared);
    return a.place == b.place && pieces[a.piece].buffer == pieces[b.piece].buffer && weights;
  };
  for (uint32_t i = 0; i < entries.size(); ++i)
    if (i > 0 && belongs(entries[i - 1], entries[i]))
      runs.back().end = i + 1;
    else
      runs.push_back({.first = i, .end = i + 1});
  return runs;
}

uint64_t TrainedLayout::bytes() const {
  return 4 * (std::accumulate(buffer_words.begin(), buffer_words.end(), uint64_t{0}) + sums + table.size());
}

namespace {

void add_entries(TrainedLayout& trained, const PlanRequest& request, const Layout& layout) {
  size_t places = 0;
  for (const TrainedFactor& factor : request.trained) places = std::max(places, factor.places.size());
  for (uint32_t place = 0; place < places; ++place)
    for (uint32_t i = 0; i < trained.pieces.size(); ++i) {
      const TrainedPiece& piece = trained.pieces[i];
      const std::vector<TrainedFactor::Place>& all = request.trained[piece.factor].places;
      if (place >= all.size()) continue;
      trained.entries.push_back({.piece = i,
                                 .place = place,
                                 .first_group = trained.groups,
                                 .weight = all[place].weight,
                                 .shared = layout.shared(all[place].weight).buffer});
      trained.groups += static_cast<uint32_t>(divide_up(piece.count, kTrainedGroupNumbers));
    }
}

void add_table(TrainedLayout& trained, const PlanRequest& request, const Layout& layout) {
  constexpr auto kWords = static_cast<uint32_t>(kTrainedWordNames.size());
  const uint32_t first = trained.groups + trained.sums;
  trained.table.resize(first + size_t{kWords} * trained.entries.size());
  for (uint32_t i = 0; i < trained.entries.size(); ++i) {
    const TrainedEntry& entry = trained.entries[i];
    const TrainedPiece& piece = trained.pieces[entry.piece];
    const SharedPlace& shared = layout.shared(entry.weight);
    const uint64_t row_words = layout.matrix(entry.weight).row_words;
    const ValueId gradient = request.trained[piece.factor].places[entry.place].gradient;
    const uint32_t at = first + kWords * i;
    const std::array<uint64_t, kWords> words = {entry.first_group,
                                                piece.first_sum,
                                                piece.count,
                                                piece.word,
                                                piece.table_words,
                                                layout.at(gradient) + piece.first,
                                                (shared.buffer == kNone ? 0 : shared.word) + piece.tile_row * row_words,
                                                row_words,
                                                request.program->weights[entry.weight].shape.columns};
    std::ranges::transform(words, trained.table.begin() + at,
                           [](uint64_t word) { return static_cast<uint32_t>(word); });
    std::fill(trained.table.begin() + entry.first_group, trained.table.begin() + trained.end_group(i), at);
    if (entry.place != 0) continue;
    const uint64_t sums = divide_up(piece.count, kTrainedSumNumbers);
    std::fill_n(trained.table.begin() + trained.groups + piece.first_sum, sums, at);
  }
}

}  // namespace

TrainedLayout lay_out_trained(const PlanRequest& request, const Layout& layout, const Adapter& adapter) {
  TrainedLayout trained;
  const uint64_t room = std::min({kMostNumbers, (adapter.binding_bytes - kOtherBytes) / 4 / kTrainedTables,
                                  (adapter.buffer_bytes - kOtherBytes) / 4 / kTrainedTables});
  const auto add = [&](TrainedPiece piece) {
    piece.table_words = table_words(piece.count);
    const uint64_t words = kTrainedTables * piece.table_words;
    const uint64_t bindable = std::min(adapter.buffer_bytes, adapter.binding_bytes);
    const uint64_t most = std::max(std::min(kMostBufferBytes, bindable) / 4, words);
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
  add_entries(trained, request, layout);
  add_table(trained, request, layout);
  return trained;
}

}  // namespace sluice::webgpu

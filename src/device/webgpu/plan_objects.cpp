#include "device/webgpu/plan_objects.h"

#include <algorithm>
#include <tuple>

#include "device/webgpu/formats/weight_format.h"

namespace sluice::webgpu {
namespace {

constexpr uint64_t kLeastBytes = 64;                // of a buffer: an empty one cannot be bound
constexpr uint64_t kReadBytes = uint64_t{1} << 20;  // of a weight's file at once

// Matrices that share a buffer begin within its first kSharedBytes, more than caches hold. The next matrix is moved by
// at most kApartBytes.
constexpr uint64_t kSharedBytes = uint64_t{512} << 20, kApartBytes = uint64_t{64} << 20;
constexpr uint64_t kBindingAlignment = 256;  // the largest there is

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }
uint64_t bound_bytes(uint64_t bytes) { return round_up(std::max(bytes, kLeastBytes), 16); }

}  // namespace

PlanObjects::PlanObjects(const WebGpuPlan& plan, std::shared_ptr<Host> host, const std::vector<TensorSource>& weights,
                         Matrices matrices)
    : plan_(plan), host_(std::move(host)), weights_(weights), kind_(matrices) {
  const Program& program = plan_.program();
  memory_ = buffer(plan_.memory_bytes());
  counts_ = buffer(sizeof(StepCounts), BufferUse::uniform);
  flags_ = buffer(program.ops.size() * 4);
  bounce_ = buffer(plan_.bounce_bytes());
  factors_ = buffer(plan_.layout().factor_words() * 4);
  for (uint32_t i = 0; i < program.states.size(); ++i) states_.push_back(buffer(plan_.layout().state_bytes(i)));
  for (uint32_t i = 0; i < plan_.layout().slots().buffers(); ++i)
    slots_.push_back(buffer(plan_.layout().slots().bytes(i)));
  matrices_.resize(program.weights.size());
  if (!has_weights()) {
    share_matrices();
    variants_[TokenClass::decode] = make_variant(plan_.dispatches(TokenClass::decode));
    return;
  }
  make_matrices();
  for (const TokenClass one : kTokenClasses) variants_[one] = make_variant(plan_.dispatches(one));
  make_trained();
  upload_factors(weights);
  skip_what_is_full();
}

// Where a matrix of a shared buffer lies.
BoundRange PlanObjects::in_shared(WeightId weight) const {
  const SharedPlace& place = plan_.layout().shared(weight);
  const BoundRange& all = shared_[place.buffer];
  return {.buffer = all.buffer,
          .offset = all.offset + place.word * 4,
          .bytes = bound_bytes(plan_.layout().tile_bytes(weight, 0))};
}

void PlanObjects::make_matrices() {
  const Layout& layout = plan_.layout();
  for (const uint64_t words : layout.shared_words())
    shared_.push_back({.buffer = buffer(words * 4), .bytes = bound_bytes(words * 4)});
  for (WeightId id = 0; id < matrices_.size(); ++id) {
    if (layout.shared(id).buffer != kNone) {
      matrices_[id].push_back(in_shared(id));
      continue;
    }
    for (uint32_t tile = 0; tile < layout.matrix(id).tiles.size(); ++tile) {
      const uint64_t bytes = layout.tile_bytes(id, tile);
      matrices_[id].push_back({.buffer = buffer(bytes), .bytes = bound_bytes(bytes)});
    }
  }
}

void PlanObjects::make_trained() {
  const TrainedLayout& layout = plan_.trained();
  if (layout.pieces.empty()) return;
  for (const uint64_t words : layout.buffer_words) trained_.push_back(buffer(words * 4));
  trained_sums_ = buffer(layout.sums * 4);
  trained_step_ = buffer(kTrainedStepNames.size() * 4);
  trained_table_ = buffer(layout.table.size() * 4);
  host_->upload(trained_table_, 0, std::as_bytes(std::span(layout.table)));
  for (const TrainedWork work : kTrainedWorks)
    trained_variants_.push_back(make_variant(plan_.trained_dispatches(work)));
}

uint64_t PlanObjects::shared_bytes(const WebGpuPlan& plan) {
  const Layout& layout = plan.layout();
  uint64_t largest = 0, all = 0;
  const auto add = [&](uint64_t own) {
    const uint64_t bytes = round_up(bound_bytes(own), kBindingAlignment);
    largest = std::max(largest, bytes);
    all += bytes;
  };
  for (const uint64_t words : layout.shared_words()) add(words * 4);
  for (WeightId id = 0; id < plan.program().weights.size(); ++id)
    for (uint32_t tile = 0; tile < layout.matrix(id).tiles.size() && layout.shared(id).buffer == kNone; ++tile)
      add(layout.tile_bytes(id, tile));
  return std::min(largest + kSharedBytes, all);
}

void PlanObjects::share_matrices() {
  const uint64_t most = std::max(host_->adapter().buffer_bytes / kBindingAlignment * kBindingAlignment, kLeastBytes);
  const uint64_t bytes = std::min(std::max(shared_bytes(plan_), kLeastBytes), most);
  const BufferId shared = buffer(bytes);
  uint64_t next = 0;
  const auto place = [&](uint64_t own) {
    if (next + own > bytes) next = 0;
    const BoundRange range{.buffer = shared, .offset = next, .bytes = own};
    next += round_up(std::min(own, kApartBytes), kBindingAlignment);
    return range;
  };
  const Layout& layout = plan_.layout();
  for (const uint64_t words : layout.shared_words()) shared_.push_back(place(bound_bytes(words * 4)));
  for (WeightId id = 0; id < matrices_.size(); ++id)
    for (uint32_t tile = 0; tile < layout.matrix(id).tiles.size(); ++tile)
      matrices_[id].push_back(layout.shared(id).buffer != kNone ? in_shared(id)
                                                                : place(bound_bytes(layout.tile_bytes(id, tile))));
}

PlanObjects::~PlanObjects() {
  for (const BindingId binding : all_bindings_) host_->drop_binding(binding);
  for (const BufferId buffer : buffers_) host_->drop_buffer(buffer);
}

BufferId PlanObjects::buffer(uint64_t bytes, BufferUse use) {
  buffers_.push_back(host_->buffer(bound_bytes(bytes), use));
  return buffers_.back();
}

void PlanObjects::upload_factors(const std::vector<TensorSource>& weights) {
  std::vector<float> all(plan_.layout().factor_words());
  for (WeightId id = 0; id < weights.size(); ++id) {
    if (!plan_.layout().is_factor(id)) continue;
    const WeightShape& shape = weights[id].shape;
    for (uint32_t row = 0; row < shape.rows; ++row)
      decode_weight_row(weights[id], 0, row, all.data() + plan_.layout().factor(id) + uint64_t{row} * shape.columns);
  }
  host_->upload(factors_, 0, std::as_bytes(std::span(all)));
}

void PlanObjects::fill(uint64_t bytes) {
  const MatrixLayout& matrix = plan_.layout().matrix(next_.weight);
  const WeightTile& tile = matrix.tiles[next_.tile];
  const std::vector<uint32_t> grid = weight_format(matrix.format)->packed_grid();
  if (next_.row == 0 && !grid.empty())
    host_->upload(matrices_[next_.weight][next_.tile].buffer, matrices_[next_.weight][next_.tile].offset,
                  std::as_bytes(std::span(grid)));
  const uint64_t count = std::min(std::max<uint64_t>(bytes / 4 / matrix.row_words, 1), tile.rows - next_.row);
  fill_rows(next_.weight, next_.tile, next_.row, count);
  filled_bytes_ += (count * matrix.row_words + (next_.row == 0 ? grid.size() : 0)) * 4;
  next_.row += count;
  skip_what_is_full();
}

void PlanObjects::reload(WeightId weight, uint32_t first, uint32_t matrices) {
  const MatrixLayout& matrix = plan_.layout().matrix(weight);
  const uint64_t rows = weights_[weight].shape.rows;
  for (uint32_t i = 0; i < matrix.tiles.size(); ++i) {
    const WeightTile& tile = matrix.tiles[i];
    const uint64_t begin = std::max<uint64_t>(first * rows, tile.first_row);
    const uint64_t end = std::min<uint64_t>((uint64_t{first} + matrices) * rows, tile.first_row + tile.rows);
    const uint64_t at_once = std::max<uint64_t>(kPieceBytes / 4 / matrix.row_words, 1);
    for (uint64_t row = begin; row < end; row += at_once)
      fill_rows(weight, i, row - tile.first_row, std::min(at_once, end - row));
  }
}

// Packs and uploads rows [first, first + count) of a tile.
void PlanObjects::fill_rows(WeightId weight, uint32_t tile, uint64_t first, uint64_t count) {
  const TensorSource& source = weights_[weight];
  const MatrixLayout& matrix = plan_.layout().matrix(weight);
  const uint64_t grid_words = weight_format(matrix.format)->packed_grid().size();
  const BoundRange& range = matrices_[weight][tile];
  std::vector<uint32_t> words;
  std::vector<std::byte> room;
  const uint64_t at_once = std::max<uint64_t>(kReadBytes / std::max<uint64_t>(source.row_stride, 1), 1);
  for (uint64_t i = 0; i < count;) {
    const uint64_t row = matrix.tiles[tile].first_row + first + i, of_expert = row % source.shape.rows;
    const WeightRows rows{
        .expert = static_cast<uint32_t>(row / source.shape.rows),
        .first = static_cast<uint32_t>(of_expert),
        .count = static_cast<uint32_t>(std::min({count - i, source.shape.rows - of_expert, at_once}))};
    const std::byte* packed = packed_weight_rows(source, rows, matrix.row_words, room);
    if (packed == nullptr) {
      words.resize(static_cast<size_t>(rows.count * matrix.row_words));
      pack_weight_rows(source, rows, matrix.row_words, words.data());
      packed = reinterpret_cast<const std::byte*>(words.data());
    }
    host_->upload(range.buffer, range.offset + (grid_words + (first + i) * matrix.row_words) * 4,
                  {packed, static_cast<size_t>(rows.count * matrix.row_words * 4)});
    i += rows.count;
  }
}

void PlanObjects::pack_part(const Experts& op, uint32_t expert, uint32_t part, std::span<const std::byte* const> pieces,
                            std::span<std::byte> into) const {
  const WeightId ids[kExpertParts] = {op.gate, op.up, op.down};
  for (uint32_t before = 0; before < part; ++before)
    pieces = pieces.subspan(expert_pieces(weights_[ids[before]]).size());
  TensorSource source = weights_[ids[part]];
  for (const ExpertPiece& piece : expert_pieces(source)) {
    std::vector<StoredAt>& places = piece_places(source, piece);
    places.resize(source.shape.experts);
    places[expert] = pieces.front();
    pieces = pieces.subspan(1);
  }
  const MatrixLayout& matrix = plan_.layout().matrix(ids[part]);
  const std::vector<uint32_t> grid = weight_format(matrix.format)->packed_grid();
  auto* const words = reinterpret_cast<uint32_t*>(into.data());
  uint32_t* to = std::copy(grid.begin(), grid.end(), words + plan_.layout().in_slot(ids[part]));
  pack_weight_rows(source, {.expert = expert, .count = source.shape.rows}, matrix.row_words, to);
}

void PlanObjects::fill_slot(uint32_t slot, const std::byte* packed) {
  const SlotsLayout& slots = plan_.layout().slots();
  const uint32_t buffer = slot / slots.in_buffer;
  const uint64_t bytes = slots.words * 4;
  host_->upload(slots_[buffer], (slot - slots.first(buffer)) * bytes, {packed, static_cast<size_t>(bytes)});
}

void PlanObjects::skip_what_is_full() {
  for (; next_.weight < matrices_.size(); ++next_.weight, next_.tile = 0) {
    const std::vector<WeightTile>& tiles = plan_.layout().matrix(next_.weight).tiles;
    for (; next_.tile < tiles.size(); ++next_.tile, next_.row = 0)
      if (next_.row < tiles[next_.tile].rows) return;
  }
}

BoundRange PlanObjects::range(const Slot& slot) const {
  const Layout& layout = plan_.layout();
  const auto whole = [](BufferId buffer, uint64_t bytes) {
    return BoundRange{.buffer = buffer, .bytes = bound_bytes(bytes)};
  };
  switch (slot.kind) {
    case SlotKind::memory: return whole(memory_, plan_.memory_bytes());
    case SlotKind::factors: return whole(factors_, layout.factor_words() * 4);
    case SlotKind::weight: return matrices_[slot.index][slot.tile];
    case SlotKind::shared: return shared_[slot.index];
    case SlotKind::experts: return whole(slots_[slot.index], layout.slots().bytes(slot.index));
    case SlotKind::state: return whole(states_[slot.index], layout.state_bytes(slot.index));
    case SlotKind::trained: return whole(trained_[slot.index], plan_.trained().buffer_words[slot.index] * 4);
    case SlotKind::trained_table: return whole(trained_table_, plan_.trained().table.size() * 4);
    case SlotKind::trained_sums: return whole(trained_sums_, plan_.trained().sums * 4);
    case SlotKind::trained_step: return whole(trained_step_, kTrainedStepNames.size() * 4);
    case SlotKind::flags: break;
  }
  return whole(flags_, plan_.program().ops.size() * 4);
}

Variant PlanObjects::make_variant(const Dispatches& dispatches) {
  std::vector<PipelineId> pipelines;
  pipelines.reserve(dispatches.texts.size());
  for (const PipelineText& text : dispatches.texts) pipelines.push_back(host_->pipeline(text));
  size_t most_params = 4;
  for (const Dispatch& dispatch : dispatches.list) most_params = std::max(most_params, dispatch.params.size());
  const auto bound_bytes = static_cast<uint32_t>(round_up(most_params * 4, 16));
  const auto stride = static_cast<uint32_t>(round_up(bound_bytes, host_->adapter().uniform_alignment));
  std::vector<uint32_t> words(std::max<size_t>(dispatches.list.size(), 1) * stride / 4);
  const BufferId uniforms = buffer(words.size() * 4, BufferUse::uniform);

  std::map<std::pair<PipelineId, std::vector<Slot>>, BindingId> bindings;
  Variant variant{.streamed = dispatches.streamed};
  variant.list.reserve(dispatches.list.size());
  for (const Dispatch& dispatch : dispatches.list) {
    const uint32_t offset = static_cast<uint32_t>(variant.list.size()) * stride;
    std::copy(dispatch.params.begin(), dispatch.params.end(), words.begin() + offset / 4);
    const PipelineId pipeline = pipelines[dispatch.text];
    const auto [found, is_new] = bindings.try_emplace({pipeline, dispatch.slots}, 0);
    if (is_new) {
      std::vector<BoundRange> ranges;
      ranges.reserve(dispatch.slots.size());
      for (const Slot& slot : dispatch.slots) ranges.push_back(range(slot));
      found->second = host_->bind(pipeline, ranges, {.buffer = uniforms, .bytes = bound_bytes},
                                  {.buffer = counts_, .bytes = sizeof(StepCounts)});
      all_bindings_.push_back(found->second);
    }
    variant.list.push_back({.pipeline = pipeline,
                            .binding = found->second,
                            .uniform_offset = offset,
                            .extent = dispatch.extent,
                            .grid = dispatch.grid,
                            .op = dispatch.op,
                            .of_present = dispatch.of_present});
  }
  host_->upload(uniforms, 0, std::as_bytes(std::span(words)));
  return variant;
}

Result<const Variant*> PlanObjects::looking_variant(TokenClass token_class) {
  std::optional<Variant>& variant = looking_[token_class];
  if (!variant) {
    variant = make_variant(plan_.looking_dispatches(token_class));
    TRY_STATUS(host_->settle());
  }
  return &*variant;
}

}  // namespace sluice::webgpu

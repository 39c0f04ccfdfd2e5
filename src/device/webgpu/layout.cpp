#include "device/webgpu/layout.h"

#include <algorithm>

#include "device/webgpu/formats/weight_format.h"
#include "graph/fusion.h"
#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice::webgpu {
namespace {

// Every section begins at such a multiple, so that bindings and vectors may begin there.
uint64_t aligned(uint64_t words) { return (words + 15) / 16 * 16; }

// A matrix in a shared buffer begins at such a multiple: the largest alignment of bindings that WebGPU allows.
constexpr uint64_t kSharedWords = 64;

}  // namespace

bool is_decoded_by_host(const Program& program, const Embed& op) { return program.values[op.ids].type.width == 1; }

WeightUses weight_uses(const Program& program) {
  WeightUses uses{std::vector<bool>(program.weights.size()), std::vector<bool>(program.weights.size())};
  for (const Op& op : program.ops) {
    const auto* embed = std::get_if<Embed>(&op);
    if (embed != nullptr && is_decoded_by_host(program, *embed)) continue;
    const bool product = embed != nullptr || std::holds_alternative<Linear>(op) ||
                         std::holds_alternative<Experts>(op) || std::holds_alternative<Attention>(op) ||
                         std::holds_alternative<Expand>(op) || std::holds_alternative<LinearTransposed>(op) ||
                         std::holds_alternative<ExpertLinear>(op) ||
                         std::holds_alternative<ExpertLinearTransposed>(op) ||
                         std::holds_alternative<CrossEntropy>(op) || std::holds_alternative<ClusteredLogits>(op);
    const auto* attention = std::get_if<Attention>(&op);
    const auto* clustered = std::get_if<ClusteredLogits>(&op);
    const WeightId apart = attention != nullptr ? attention->relative : clustered != nullptr ? clustered->order : kNone;
    for_each_weight(op, [&](WeightId id) { (product && id != apart ? uses.matrix : uses.factor)[id] = true; });
  }
  return uses;
}

Layout::Layout(const PlanRequest& request, const Adapter& adapter, std::span<const OpRange> together)
    : request_(&request),
      program_(request.program),
      cache_(request.cache.value_or(request.arithmetic == Arithmetic::exact ? Format::f32 : Format::f16)) {
  find_host_embeds();
  lay_out_step();
  lay_out_values(together);
  lay_out_states();
  lay_out_weights(adapter);
}

// A traced plan keeps every value, so the rows before and behind a scatter are apart there.
void Layout::find_host_embeds() {
  const Readers readers(*program_);
  const auto reads_alone = [&](uint32_t op, ValueId value) { return !readers.outside(value, op, op + 1); };
  for_host_.resize(program_->inputs.size());
  for (const Op& op : program_->ops)
    if (const auto* embed = std::get_if<Embed>(&op); embed != nullptr && is_decoded_by_host(*program_, *embed))
      host_embeds_.push_back({.embed = embed});
  for (uint32_t op = 0; op < program_->ops.size() && !request_->traced; ++op) {
    const auto* scatter = std::get_if<Scatter>(&program_->ops[op]);
    if (scatter == nullptr) continue;
    const int index = input_of(*program_, scatter->index), rows = input_of(*program_, scatter->rows);
    for (HostEmbed& one : host_embeds_) {
      if (one.embed->out != scatter->x || index < 0 || rows < 0 || !reads_alone(op, scatter->x)) continue;
      one.scatter = scatter;
      for (const int input : {index, rows})
        for_host_[static_cast<size_t>(input)] = reads_alone(op, program_->inputs[static_cast<size_t>(input)].value);
    }
  }
}

bool Layout::is_by_host(const Scatter& op) const {
  return std::ranges::any_of(host_embeds_, [&](const HostEmbed& one) { return one.scatter == &op; });
}

bool Layout::has_host_scatter(const Op& op) const {
  return std::ranges::any_of(host_embeds_, [&](const HostEmbed& one) {
    return one.scatter != nullptr && one.embed == std::get_if<Embed>(&op);
  });
}

void Layout::lay_out_step() {
  StepBuffer step(*program_, request_->maxima);
  const auto offset = [&](const void* section) {
    const auto* begin = reinterpret_cast<const std::byte*>(step.words().data());
    return kStep + static_cast<uint32_t>((static_cast<const std::byte*>(section) - begin) / 4);
  };
  step_.positions = offset(step.positions().data());
  step_.row_sequences = offset(step.row_sequences().data());
  step_.sample_rows = offset(step.sample_rows().data());
  step_.adjustments = offset(step.adjustments().data());
  step_.masks = offset(step.masks().data());
  for (uint32_t i = 0; i < program_->inputs.size(); ++i) {
    const bool integers = program_->values[program_->inputs[i].value].type.element == Element::i32;
    step_.inputs.push_back(integers ? offset(step.input_i32(i).data()) : offset(step.input_f32(i).data()));
  }
  for (RopeId rope = 0; rope < program_->ropes.size(); ++rope) {
    step_.cosines.push_back(offset(step.cosines(rope).data()));
    step_.sines.push_back(offset(step.sines(rope).data()));
  }
  for (uint32_t group = 0; group < program_->groups.size(); ++group) {
    step_.pages.push_back(offset(step.pages(group, 0).data()));
    step_.first_pages.push_back(offset(&step.first_page(group, 0)));
  }
  end_ = aligned(kStep + step.words().size());
}

void Layout::lay_out_values(std::span<const OpRange> together) {
  const Arena arena = pack_arena(*program_, request_->maxima, request_->traced, together);
  values_.resize(program_->values.size(), kNone);
  for (uint32_t i = 0; i < program_->inputs.size(); ++i) values_[program_->inputs[i].value] = step_.inputs[i];
  for (const auto& [embed, scatter] : host_embeds_) {
    values_[embed->out] = static_cast<uint32_t>(end_);
    if (scatter != nullptr) values_[scatter->out] = values_[embed->out];
    end_ = aligned(end_ + value_bytes(*program_, request_->maxima, embed->out) / 4);
  }
  const uint64_t begin = end_;
  for (ValueId id = 0; id < values_.size(); ++id)
    if (values_[id] == kNone && arena.offsets[id] != Arena::kNowhere)
      values_[id] = static_cast<uint32_t>(begin + arena.offsets[id] / 4);
  for (ValueId id = 0; id < values_.size(); ++id) values_[id] = values_[program_->values[id].storage];
  end_ = aligned(begin + arena.bytes / 4);
  scratch_ = static_cast<uint32_t>(end_);
}

void Layout::lay_out_states() {
  for (const StateDecl& decl : program_->states) {
    StateLayout state{.kind = program_->groups[decl.group].kind};
    if (state.kind == StateKind::slots) {
      state.values = state.page_words = aligned(decl.slot_elements());
    } else {
      state.per_word = cache_ == Format::f32 ? 1 : 2;
      state.key_words = (decl.key_width + state.per_word - 1) / state.per_word;
      state.value_words = (decl.value_width + state.per_word - 1) / state.per_word;
      state.values = uint64_t{decl.heads} * kPagePositions * state.key_words;
      state.page_words = state.values + uint64_t{decl.heads} * kPagePositions * state.value_words;
    }
    states_.push_back(state);
  }
}

void Layout::lay_out_weights(const Adapter& adapter) {
  const WeightUses uses = weight_uses(*program_);
  matrices_.resize(program_->weights.size());
  slot_words_.resize(program_->weights.size(), kNone);
  lay_out_slots(adapter);
  factors_.resize(program_->weights.size(), kNone);
  for (WeightId id = 0; id < matrices_.size(); ++id) {
    const WeightShape& shape = program_->weights[id].shape;
    const PlacedShape& placed = request_->weights[id];
    if (uses.factor[id]) {
      factors_[id] = static_cast<uint32_t>(factor_words_);
      factor_words_ = aligned(factor_words_ + uint64_t{shape.rows} * shape.columns);
    }
    if (!uses.matrix[id] || is_streamed(id)) continue;
    MatrixLayout& matrix = matrices_[id];
    matrix.format = device_format(placed.format, placed.in_parts);
    matrix.row_words = weight_format(matrix.format)->row_words(shape.columns);
    // A tile has whole experts if the weight has several.
    const uint64_t unit = shape.experts > 1 ? shape.rows : 1;
    const uint64_t room = adapter.binding_bytes / 4 - weight_format(matrix.format)->grid_words();
    const uint64_t most = std::max(room / matrix.row_words / unit, uint64_t{1}) * unit;
    const uint64_t rows = uint64_t{shape.experts} * shape.rows;
    for (uint64_t first = 0; first < rows; first += most)
      matrix.tiles.push_back({.first_row = first, .rows = std::min(most, rows - first)});
  }
  share_adapters(adapter);
}

// Op by op, so that ops that may become one kernel have their factors in one buffer.
void Layout::share_adapters(const Adapter& adapter) {
  shared_.resize(program_->weights.size());
  for (const Op& op : program_->ops) {
    const auto* linear = std::get_if<Linear>(&op);
    if (linear == nullptr || !linear->adapter) continue;
    for (const WeightId id : {linear->adapter.a, linear->adapter.b}) {
      if (shared_[id].buffer != kNone || matrices_[id].tiles.size() != 1) continue;
      const uint64_t words = (tile_bytes(id, 0) / 4 + kSharedWords - 1) / kSharedWords * kSharedWords;
      if (words > adapter.binding_bytes / 4) continue;
      if (shared_words_.empty() || shared_words_.back() + words > adapter.binding_bytes / 4) shared_words_.push_back(0);
      shared_[id] = {.buffer = static_cast<uint32_t>(shared_words_.size() - 1), .word = shared_words_.back()};
      shared_words_.back() += words;
    }
  }
}

void Layout::lay_out_slots(const Adapter& adapter) {
  slots_.count = request_->expert_slots.count;
  for (const Op& op : program_->ops) {
    const auto* experts = std::get_if<Experts>(&op);
    if (experts == nullptr) continue;
    uint64_t words = 0;
    for (const WeightId id : {experts->gate, experts->up, experts->down}) {
      const PlacedShape& placed = request_->weights[id];
      MatrixLayout& matrix = matrices_[id];
      matrix.format = device_format(placed.format, placed.in_parts);
      const WeightFormat& format = *weight_format(matrix.format);
      matrix.row_words = format.row_words(placed.shape.columns);
      if (slots_.count > 0) slot_words_[id] = static_cast<uint32_t>(words);
      words = aligned(words + format.grid_words() + placed.shape.rows * matrix.row_words);
    }
    slots_.words = std::max(slots_.words, words);
  }
  if (slots_.words == 0 || slots_.count == 0) return;
  const uint64_t most = adapter.binding_bytes / 4 / slots_.words;
  slots_.in_buffer = static_cast<uint32_t>(std::clamp<uint64_t>(most, 1, slots_.count));
}

uint64_t Layout::state_bytes(uint32_t state) const {
  return states_[state].page_words * 4 * request_->pages[program_->states[state].group];
}

uint64_t Layout::page_bytes(uint32_t group) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < states_.size(); ++i)
    if (program_->states[i].group == group) bytes += states_[i].page_words * 4;
  return bytes;
}

uint64_t Layout::all_state_bytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < states_.size(); ++i) bytes += state_bytes(i);
  return bytes;
}

uint64_t Layout::tile_bytes(WeightId weight, uint32_t tile) const {
  const MatrixLayout& matrix = matrices_[weight];
  return (weight_format(matrix.format)->grid_words() + matrix.tiles[tile].rows * matrix.row_words) * 4;
}

uint64_t Layout::all_tile_bytes(WeightId weight) const {
  uint64_t bytes = 0;
  for (uint32_t tile = 0; tile < matrices_[weight].tiles.size(); ++tile) bytes += tile_bytes(weight, tile);
  return bytes;
}

uint64_t Layout::matrix_bytes() const {
  uint64_t bytes = 0;
  for (WeightId id = 0; id < matrices_.size(); ++id) bytes += all_tile_bytes(id);
  return bytes;
}

uint64_t Layout::matrix_buffers_bytes() const {
  uint64_t bytes = 0;
  for (WeightId id = 0; id < matrices_.size(); ++id)
    if (shared_[id].buffer == kNone) bytes += all_tile_bytes(id);
  for (const uint64_t words : shared_words_) bytes += words * 4;
  return bytes;
}

}  // namespace sluice::webgpu

#include "device/cpu/plan.h"

#include <algorithm>

#include "device/cpu/kernels/quantise.h"
#include "device/cpu/packing.h"
#include "device/expert_stretches.h"
#include "graph/cost.h"
#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice::cpu {
namespace {

constexpr uint64_t kLine = 64;

uint64_t lines(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::vector<Dispatch> dispatches_of(const Program& program) {
  std::vector<Dispatch> dispatches;
  auto block = program.blocks.begin();
  for (uint32_t op = 0; op < program.ops.size();) {
    const bool begins = block != program.blocks.end() && block->first_op == op;
    // Fusing a router and its experts is no faster.
    const bool fused = begins && block->kind != BlockKind::moe;
    dispatches.push_back(
        {.first_op = op, .end_op = fused ? block->end_op : op + 1, .block = fused ? &*block : nullptr});
    if (begins) ++block;
    op = dispatches.back().end_op;
  }
  return dispatches;
}

}  // namespace

uint64_t route_scratch(const Route& op, uint64_t experts) { return uint64_t{2} * op.groups + experts; }

LatentScratch latent_scratch(uint32_t latent, const WeightShape& key, const WeightShape& value, uint32_t rank) {
  const uint64_t rows = uint64_t{kMaxQueries} * cache_width(latent), sums = 2 * block_floats(latent);
  LatentScratch scratch{.results = 0, .folded = sums, .attended = sums + rows, .product = sums + 2 * rows};
  scratch.adapter = scratch.product + product_scratch(std::max({key.columns, value.columns, rank}));
  const uint64_t widest = std::max({key.rows, key.columns, value.rows, value.columns});
  scratch.end = scratch.adapter + (rank == 0 ? 0 : 2 * uint64_t{rank} + 2 * widest);
  return scratch;
}

uint32_t adapter_rank(const Program& program, const Expansion& expand) {
  uint32_t rank = 0;
  for (const AdapterOperand& one : {expand.key_adapter, expand.value_adapter})
    if (one) rank = std::max(rank, program.weights[one.a].shape.rows);
  return rank;
}

const CacheKernels* cache_kernels(const Kernels& kernels, Format format) {
  switch (format) {
    case Format::f32: return &kernels.cache_f32;
    case Format::f16: return &kernels.cache_f16;
    case Format::bf16: return &kernels.cache_bf16;
    default: return nullptr;
  }
}

CpuPlan::CpuPlan(const PlanRequest& request, const SimdInfo& simd, uint32_t threads)
    : request_(request),
      simd_(simd),
      threads_(threads),
      arena_(pack_arena(*request.program, request.maxima, request.traced)),
      page_bytes_(request.program->groups.size()),
      dispatches_(dispatches_of(*request.program)),
      is_factor_(request.program->weights.size()),
      is_streamed_(request.program->weights.size()),
      experts_of_route_(request.program->ops.size(), kNone),
      guess_of_(request.program->ops.size(), kNone) {
  single_ops_.reserve(program().ops.size());
  for (uint32_t op = 0; op < program().ops.size(); ++op) single_ops_.push_back({.first_op = op, .end_op = op + 1});
  for (uint32_t i = 0; i < program().guesses.size(); ++i)
    for (uint32_t op = program().guesses[i].first_op; op < program().guesses[i].end_op; ++op) guess_of_[op] = i;
  lay_out_states();
  find_factors();
  if (request.expert_slots.count != 0) find_streamed();
  if (request.repack != Repack::never) find_packed();
  size_scratch();
}

Format CpuPlan::cache_format() const {
  return request_.cache.value_or(request_.arithmetic == Arithmetic::exact ? Format::f32 : Format::f16);
}

ProductKernel CpuPlan::product_kernel(WeightId weight) const {
  const PlacedShape& placed = request_.weights[weight];
  return placed.in_parts ? kernels().product_in_parts : kernels().formats[static_cast<int>(placed.format)].product;
}

bool CpuPlan::takes_8bit(WeightId weight) const {
  const PlacedShape& placed = request_.weights[weight];
  return request_.arithmetic == Arithmetic::fast && !placed.in_parts &&
         kernels().formats[static_cast<int>(placed.format)].product_8bit != nullptr;
}

bool CpuPlan::takes_8bit_transposed(WeightId weight) const {
  return takes_8bit(weight) && program().weights[weight].shape.rows % kQuantElements == 0;
}

bool CpuPlan::takes_bf16(WeightId weight) const {
  const PlacedShape& placed = request_.weights[weight];
  return rounds_to_bf16() && !placed.in_parts && placed.format == Format::bf16;
}

bool CpuPlan::attends_in_pairs(const Attention& op) const {
  return rounds_to_bf16() && op.has_own_rows() && !has_positions(program().values[op.q].type.extent) &&
         op.relative == kNone;
}

std::string CpuPlan::numerics_id() const {
  const bool exact = request_.arithmetic == Arithmetic::exact;
  const char* const version = exact ? "kv/v3" : rounds_to_bf16() ? "kv/v5/bf16" : "kv/v4";
  return cat("cpu/", simd_.name, exact ? "/exact/" : "/fast/", format_name(cache_format()), version);
}

void CpuPlan::lay_out_states() {
  const uint64_t element = cache_kernels().element_bytes;
  for (const StateDecl& state : program().states) {
    StateLayout layout;
    if (program().groups[state.group].kind == StateKind::slots) {
      layout.key_page_bytes = lines(state.slot_elements() * sizeof(float));
      layout.keys = layout.values = cache_bytes_;
      cache_bytes_ += request_.pages[state.group] * layout.key_page_bytes;
      page_bytes_[state.group] += layout.key_page_bytes;
      states_.push_back(layout);
      continue;
    }
    layout.key_head_bytes = element * state.key_width * kPagePositions;
    layout.value_head_bytes = element * cache_width(state.value_width) * kPagePositions;
    layout.key_page_bytes = layout.key_head_bytes * state.heads;
    layout.value_page_bytes = layout.value_head_bytes * state.heads;
    const uint64_t pages = request_.pages[state.group];
    layout.keys = cache_bytes_;
    layout.values = layout.keys + lines(pages * layout.key_page_bytes);
    cache_bytes_ = layout.values + lines(pages * layout.value_page_bytes);
    page_bytes_[state.group] += layout.key_page_bytes + layout.value_page_bytes;
    states_.push_back(layout);
  }
}

void CpuPlan::find_factors() {
  const auto mark = [&](WeightId id) {
    if (id == kNone || is_factor_[id]) return;
    is_factor_[id] = true;
    const WeightShape& shape = program().weights[id].shape;
    factor_bytes_ += lines(uint64_t{shape.rows} * shape.columns * sizeof(float));
  };
  for (const Op& op : program().ops) {
    if (const auto* norm = std::get_if<RmsNorm>(&op)) mark(norm->weight);
    if (const auto* norm = std::get_if<LayerNorm>(&op)) {
      mark(norm->weight);
      mark(norm->bias);
    }
    if (const auto* add = std::get_if<AddBias>(&op)) mark(add->bias);
    if (const auto* scale = std::get_if<Scale>(&op)) mark(scale->weight);
    if (const auto* attention = std::get_if<Attention>(&op)) mark(attention->relative);
    if (const auto* clustered = std::get_if<ClusteredLogits>(&op)) mark(clustered->order);
    if (const auto* clamp = std::get_if<Clamp>(&op)) {
      mark(clamp->low);
      mark(clamp->high);
    }
    if (const auto* route = std::get_if<Route>(&op)) {
      mark(route->per_expert_scale);
      mark(route->bias);
    }
    if (const auto* conv = std::get_if<ShortConv>(&op)) mark(conv->weight);
    if (const auto* conv = std::get_if<ShortConvBackward>(&op)) mark(conv->weight);
    if (const auto* norm = std::get_if<NormBackward>(&op)) mark(norm->weight);
    if (const auto* route = std::get_if<RouteBackward>(&op)) mark(route->per_expert_scale);
    if (const auto* gates = std::get_if<DeltaGatesBackward>(&op)) {
      mark(gates->rate);
      mark(gates->bias);
    }
    if (const auto* gates = std::get_if<DeltaGates>(&op)) {
      mark(gates->rate);
      mark(gates->bias);
    }
  }
}

void CpuPlan::find_streamed() {
  for (uint32_t op = 0; op < program().ops.size(); ++op) {
    const auto* experts = std::get_if<Experts>(&program().ops[op]);
    if (experts == nullptr) continue;
    for (const WeightId weight : {experts->gate, experts->up, experts->down}) is_streamed_[weight] = true;
    if (const uint32_t route = route_of(program(), *experts); route != kNone) experts_of_route_[route] = op;
  }
}

void CpuPlan::find_packed() {
  const auto add = [&](WeightId id, uint32_t used) {
    if (!takes_8bit(id) || is_streamed_[id] || std::ranges::find(packed_weights_, id) != packed_weights_.end()) return;
    const WeightShape& shape = program().weights[id].shape;
    const uint64_t matrix = cpu::packed_bytes(row_bytes(request_.weights[id].format, shape.columns), shape.rows);
    packed_weights_.push_back(id);
    packed_bytes_ += shape.experts * matrix;
    packed_bytes_of_token_ += used * matrix;
  };
  for (const Op& op : program().ops) {
    if (const auto* linear = std::get_if<Linear>(&op)) add(linear->weight, 1);
    if (const auto* experts = std::get_if<Experts>(&op))
      for (const WeightId id : {experts->gate, experts->up, experts->down})
        add(id, program().values[experts->index].type.width);
  }
}

uint64_t CpuPlan::maximum_rows(ValueId id) const {
  const Extent extent = program().values[id].type.extent;
  return request_.maxima.counts.rows_of(extent);
}

void CpuPlan::size_product(uint64_t rows, WeightId weight) {
  const uint64_t columns = program().weights[weight].shape.columns;
  if (takes_8bit(weight))
    scratch_.quantised = std::max(scratch_.quantised, lines(rows * kernels().quantised_bytes(columns)));
  if (takes_bf16(weight)) scratch_.bf16 = std::max(scratch_.bf16, lines(rows * bf16()->row_bytes(columns)));
  if (!takes_8bit(weight)) size_thread(product_scratch(columns));
}

void CpuPlan::size_transposed(uint64_t rows, WeightId weight) {
  size_thread(kBlockScratch);
  if (takes_8bit_transposed(weight))
    scratch_.quantised =
        std::max(scratch_.quantised, lines(rows * kernels().quantised_bytes(program().weights[weight].shape.rows)));
}

void CpuPlan::size_experts(const Experts& op) {
  const uint64_t k = program().values[op.index].type.width;
  const uint64_t chosen = maximum_rows(op.x) * k;
  const WeightShape& gate = program().weights[op.gate].shape;
  for (const WeightId weight : {op.gate, op.up, op.down}) size_product(chosen, weight);
  scratch_.expert_rows = std::max(scratch_.expert_rows, lines(chosen * gate.columns * sizeof(float)));
  scratch_.expert_gate = std::max(scratch_.expert_gate, lines(chosen * gate.rows * sizeof(float)));
  scratch_.expert_up = scratch_.expert_gate;
}

void CpuPlan::size_adapters(const Dispatch& dispatch) {
  uint64_t inner = 0, scales = 0;
  for (uint32_t op = dispatch.first_op; op < dispatch.end_op; ++op) {
    const auto take = [&](const AdapterOperand& adapter, uint64_t rows) {
      if (!adapter) return;
      const WeightShape& a = program().weights[adapter.a].shape;
      inner += rows * a.rows;
      scales += rows;
      size_thread(product_scratch(a.columns));
      size_thread(added_scratch(a.rows));
    };
    if (const auto* linear = std::get_if<Linear>(&program().ops[op])) take(linear->adapter, maximum_rows(linear->x));
    const auto* experts = std::get_if<Experts>(&program().ops[op]);
    if (experts == nullptr) continue;
    const uint64_t chosen = maximum_rows(experts->x) * program().values[experts->index].type.width;
    for (const AdapterOperand& one : {experts->adapters.gate(), experts->adapters.up(), experts->adapters.down()})
      take(one, chosen);
  }
  scratch_.adapter_inner = std::max(scratch_.adapter_inner, lines(inner * sizeof(float)));
  scratch_.adapter_scales = std::max(scratch_.adapter_scales, lines(scales * sizeof(float)));
}

void CpuPlan::size_thread(uint64_t floats) {
  scratch_.thread = std::max(scratch_.thread, lines(floats * sizeof(float)));
}

OwnPages own_pages(const Attention& op, const Program& program, uint64_t rows, bool in_pairs) {
  const KeyShape keys = op.keys(program);
  const uint64_t element = in_pairs ? sizeof(uint16_t) : sizeof(float);
  const uint64_t key_elements = in_pairs ? (keys.key_width + 1) / 2 * 2 : keys.key_width;
  return {.heads = keys.heads,
          .tiles = (rows + kPagePositions - 1) / kPagePositions + 1,  // where they begin within a tile
          .key_bytes = element * key_elements * kPagePositions,
          .value_bytes = element * cache_width(keys.value_width) * kPagePositions};
}

void CpuPlan::size_scratch() {
  const auto shape = [&](WeightId id) -> const WeightShape& { return program().weights[id].shape; };
  for (const Op& op : program().ops) {
    if (const auto* linear = std::get_if<Linear>(&op)) size_product(maximum_rows(linear->x), linear->weight);
    if (const auto* experts = std::get_if<Experts>(&op)) size_experts(*experts);
    if (const auto* clustered = std::get_if<ClusteredLogits>(&op))
      size_thread(shape(clustered->table).columns + clustered->k);
    if (const auto* route = std::get_if<Route>(&op))
      size_thread(route_scratch(*route, program().values[route->logits].type.columns()));
    if (const auto* expand = std::get_if<Expand>(&op))
      size_thread(product_scratch(std::max(shape(expand->weights.key).columns, shape(expand->weights.value).columns)));
    if (const auto* attention = std::get_if<Attention>(&op); attention != nullptr && attention->expand)
      size_thread(latent_scratch(program().states[attention->state.state].value_width, shape(attention->expand.key),
                                 shape(attention->expand.value), adapter_rank(program(), attention->expand))
                      .end);
    if (const auto* attention = std::get_if<Attention>(&op); attention != nullptr && attention->has_own_rows()) {
      const OwnPages pages = own_pages(*attention, program(), maximum_rows(attention->k), attends_in_pairs(*attention));
      const KeyShape keys = attention->keys(program());
      scratch_.own_pages = std::max(scratch_.own_pages, pages.bytes());
      size_thread(attends_in_pairs(*attention) ? paired_scratch(keys.key_width, keys.value_width)
                                               : 2 * block_floats(keys.value_width));
      size_thread(keys.key_width);
    } else if (attention != nullptr && !attention->expand)
      scratch_.part_sums = std::max(
          scratch_.part_sums, threads_ * (kBlocksPerThread + kPartsPerThread) *
                                  block_floats(program().states[attention->state.state].value_width) * sizeof(float));
    if (const auto* sample = std::get_if<Sample>(&op))
      scratch_.sample_thread =
          std::max(scratch_.sample_thread, lines(2 * program().values[sample->logits].type.columns() * sizeof(float)));
  }
  for (const Op& op : program().ops) size_training(op);
  for (const Dispatch& dispatch : dispatches_) size_adapters(dispatch);
  for (const StateDecl& state : program().states)
    if (program().groups[state.group].kind == StateKind::paged) size_thread(2 * block_floats(state.value_width));
}

// Gathered rows of both operands of a product with experts.
void CpuPlan::size_choices(ValueId by_choice, uint64_t columns, uint64_t other_columns) {
  const uint64_t choices = maximum_rows(by_choice);
  scratch_.expert_rows = std::max(scratch_.expert_rows, lines(choices * columns * sizeof(float)));
  scratch_.expert_gate = std::max(scratch_.expert_gate, lines(choices * other_columns * sizeof(float)));
}

void CpuPlan::size_training(const Op& op) {
  const auto shape = [&](WeightId id) -> const WeightShape& { return program().weights[id].shape; };
  const auto type = [&](ValueId id) -> const ValueType& { return program().values[id].type; };
  if (const auto* product = std::get_if<LinearTransposed>(&op))
    size_transposed(maximum_rows(product->x), product->weight);
  if (const auto* product = std::get_if<ExpertLinear>(&op)) {
    size_thread(product_scratch(shape(product->weight).columns));
    size_choices(product->out, shape(product->weight).columns, shape(product->weight).rows);
  }
  if (const auto* product = std::get_if<ExpertLinearTransposed>(&op)) {
    size_transposed(maximum_rows(product->out), product->weight);
    size_choices(product->out, shape(product->weight).rows, shape(product->weight).columns);
  }
  if (const auto* sum = std::get_if<ExpertOuterSum>(&op))
    size_choices(sum->left, type(sum->left).columns(), type(sum->right).columns());
  if (const auto* loss = std::get_if<CrossEntropy>(&op)) {
    const WeightShape& head = shape(loss->weight);
    const uint64_t rows = std::min(loss_rows(head.rows), maximum_rows(loss->x));
    scratch_.loss_logits = std::max(scratch_.loss_logits, lines(rows * loss_stride(head.rows) * sizeof(float)));
    size_thread(product_scratch(head.columns));
    if (loss->b == kNone) return;
    const uint64_t rank = shape(loss->b).columns;
    size_thread(added_scratch(rank));
    scratch_.adapter_inner = std::max(scratch_.adapter_inner, lines(rows * rank * sizeof(float)));
    scratch_.adapter_scales = std::max(scratch_.adapter_scales, lines(rows * sizeof(float)));
  }
  if (const auto* attention = std::get_if<AttentionBackward>(&op)) {
    const ValueType &q = type(attention->q), &v = type(attention->v);
    scratch_.attention_sums =
        std::max(scratch_.attention_sums, lines(maximum_rows(attention->q) * q.heads * sizeof(QuerySums)));
    size_thread(2 * kQueryBlock * kKeyBlock + product_scratch(std::max(q.width, v.width)));
  }
  if (const auto* delta = std::get_if<DeltaRuleBackward>(&op)) {
    const uint64_t values = type(delta->v).width, table = type(delta->k).width * values;
    const uint64_t kept = (maximum_rows(delta->v) + kDeltaRows - 1) / kDeltaRows;
    size_thread((kept + kDeltaRows + 2) * table + kDeltaRows * values);
  }
}

uint64_t CpuPlan::activation_bytes() const {
  return lines(arena_.bytes) + scratch_.quantised + scratch_.bf16 + scratch_.own_pages + scratch_.expert_rows +
         scratch_.expert_gate + scratch_.expert_up + scratch_.adapter_inner + scratch_.adapter_scales +
         scratch_.part_sums + scratch_.loss_logits + scratch_.attention_sums +
         threads_ * (scratch_.thread + scratch_.sample_thread);
}

uint64_t CpuPlan::mapped_bytes() const {
  const std::vector<WeightUse> uses = weight_uses(program());
  uint64_t bytes = 0;
  for (WeightId id = 0; id < uses.size(); ++id) {
    const bool elsewhere =
        is_factor_[id] || is_streamed_[id] || std::ranges::find(packed_weights_, id) != packed_weights_.end();
    if (uses[id] >= WeightUse::experts && !elsewhere) bytes += request_.weights[id].bytes;
  }
  return bytes;
}

std::vector<MemoryLine> CpuPlan::memory() const {
  return {{Domain::host, Purpose::weights, slot_bytes()},
          {Domain::host, Purpose::state, cache_bytes_},
          {Domain::host, Purpose::activations, activation_bytes()},
          {Domain::host, Purpose::packed_weights, factor_bytes_ + packed_bytes_},
          {Domain::host, Purpose::mapped_weights, mapped_bytes()}};
}

}  // namespace sluice::cpu

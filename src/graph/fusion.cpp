#include "graph/fusion.h"

#include <algorithm>

#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice {
namespace {

bool is_same(const Program& program, ValueId a, ValueId b) {
  return program.values[a].storage == program.values[b].storage;
}

// The value that an op of a row run makes; kNone: the op cannot be in a row run.
ValueId row_result(const Program& program, const Op& op) {
  if (const auto* norm = std::get_if<RmsNorm>(&op)) return type_of(program, norm->out).heads == 1 ? norm->out : kNone;
  if (const auto* norm = std::get_if<LayerNorm>(&op)) return type_of(program, norm->out).heads == 1 ? norm->out : kNone;
  if (const auto* add = std::get_if<Add>(&op)) return add->out;
  if (const auto* add = std::get_if<AddBias>(&op)) return add->out;
  if (const auto* mul = std::get_if<Mul>(&op)) return mul->out;
  if (const auto* scale = std::get_if<Scale>(&op)) return scale->out;
  if (const auto* activation = std::get_if<Activation>(&op)) return activation->out;
  if (const auto* gated = std::get_if<GatedActivation>(&op)) return gated->out;
  return kNone;
}

uint32_t end_of_rows(const Program& program, const FusionLimits& limits, uint32_t first) {
  const ValueId begin = row_result(program, program.ops[first]);
  if (begin == kNone || !is_row(program, limits, begin)) return first;
  uint32_t end = first + 1;
  for (; end < program.ops.size(); ++end) {
    const ValueId next = row_result(program, program.ops[end]);
    if (next == kNone || type_of(program, next).columns() != type_of(program, begin).columns() ||
        type_of(program, next).extent != type_of(program, begin).extent)
      break;
  }
  return end;
}

uint32_t end_of_linears(const Program& program, const FusionLimits& limits, uint32_t first) {
  const auto* begin = std::get_if<Linear>(&program.ops[first]);
  if (begin == nullptr) return first;
  uint32_t end = first + 1;
  while (end < program.ops.size() && end - first < limits.linears) {
    const auto* next = std::get_if<Linear>(&program.ops[end]);
    if (next == nullptr || !is_same(program, next->x, begin->x) ||
        type_of(program, next->x).extent != type_of(program, begin->x).extent)
      break;
    ++end;
  }
  return end;
}

// Builds chains op by op.
class HeadChains {
 public:
  HeadChains(const Program& program, size_t most, HeadRun& run) : program_(program), most_(most), run_(run) {}

  bool take(const Op& op) {
    if (const auto* slice = std::get_if<Slice>(&op)) return take_slice(*slice);
    if (const auto* norm = std::get_if<RmsNorm>(&op)) return take_norm(*norm);
    if (const auto* rope = std::get_if<Rope>(&op)) return take_rope(*rope);
    if (const auto* append = std::get_if<Append>(&op)) return take_append(*append);
    return false;
  }

 private:
  ValueType type(ValueId id) const { return type_of(program_, id); }

  static bool is_appended(const HeadChain& chain) { return chain.is_key || chain.is_value; }

  // The chain that makes the value, or a new one that begins with it.
  HeadChain* chain_of(ValueId value) {
    for (HeadChain& chain : run_.chains)
      if (chain.result == value) return &chain;
    return begin(value, value, 0, 1);
  }
  HeadChain* begin(ValueId source, ValueId result, uint32_t first_head, uint32_t stride) {
    if (run_.chains.size() == most_) return nullptr;
    if (!run_.chains.empty()) {
      const ValueType& other = type(run_.chains.front().result);
      if (type(result).width != other.width || type(result).extent != other.extent) return nullptr;
    }
    run_.chains.push_back(
        {.source = source, .first_head = first_head, .stride = stride, .heads = type(result).heads, .result = result});
    return &run_.chains.back();
  }

  bool take_slice(const Slice& slice) { return begin(slice.x, slice.out, slice.first_head, slice.stride) != nullptr; }
  bool take_norm(const RmsNorm& norm) {
    HeadChain* chain = chain_of(norm.x);
    if (chain == nullptr || chain->norm != nullptr || chain->rope != nullptr || is_appended(*chain)) return false;
    chain->norm = &norm;
    chain->result = norm.out;
    return true;
  }
  bool take_rope(const Rope& rope) {
    HeadChain* chain = chain_of(rope.x);
    if (chain == nullptr || chain->rope != nullptr || is_appended(*chain)) return false;
    chain->rope = &rope;
    chain->result = rope.out;
    return true;
  }
  bool take_append(const Append& append) {
    if (run_.append != nullptr || type(append.k).width != type(append.v).width) return false;
    HeadChain* key = chain_of(append.k);
    if (key == nullptr) return false;
    key->is_key = true;
    HeadChain* value = chain_of(append.v);
    if (value == nullptr) return false;
    value->is_value = true;
    run_.append = &append;
    return true;
  }

  const Program& program_;
  size_t most_;
  HeadRun& run_;
};

// Whether only the run's ops read the run's intermediate values.
bool keeps_to_itself(const Program& program, const Readers& readers, const HeadRun& run, uint32_t first) {
  bool keeps = true;
  for (uint32_t op = first; op < run.end_op; ++op)
    for_each_output(program.ops[op], [&](ValueId id) {
      const auto is_result = [&](const HeadChain& chain) { return chain.result == id; };
      if (std::none_of(run.chains.begin(), run.chains.end(), is_result))
        keeps = keeps && !readers.outside(id, first, run.end_op);
    });
  return keeps;
}

}  // namespace

bool is_row(const Program& program, const FusionLimits& limits, ValueId value) {
  return type_of(program, value).columns() <= limits.row_columns;
}

Readers::Readers(const Program& program) : program_(program), ops_(program.values.size()) {
  for (uint32_t op = 0; op < program.ops.size(); ++op)
    for_each_input(program.ops[op], [&](ValueId id) { ops_[program.values[id].storage].push_back(op); });
  for (const NamedValue& output : program.outputs) ops_[program.values[output.value].storage].push_back(kNone);
}

bool Readers::outside(ValueId value, uint32_t first, uint32_t end) const {
  const std::vector<uint32_t>& ops = ops_[program_.values[value].storage];
  return std::any_of(ops.begin(), ops.end(), [&](uint32_t op) { return op < first || op >= end; });
}

namespace {

// The longest run of heads that begins with that op; none if it has fewer than two ops.
std::optional<HeadRun> head_run(const Program& program, const FusionLimits& limits, const Readers& readers,
                                uint32_t first_op) {
  HeadRun run{.chains = {}, .append = nullptr, .end_op = first_op};
  while (run.end_op < program.ops.size()) {
    HeadRun longer = run;
    if (!HeadChains(program, limits.head_chains, longer).take(program.ops[run.end_op])) break;
    ++longer.end_op;
    run = std::move(longer);
  }
  if (run.end_op < first_op + 2 || !keeps_to_itself(program, readers, run, first_op)) return std::nullopt;
  return run;
}

std::optional<GatedRun> gated_run(const Program& program, const FusionLimits& limits, const Readers& readers,
                                  uint32_t first_op) {
  if (!limits.gated) return std::nullopt;
  GatedRun run{.gate = std::get_if<Linear>(&program.ops[first_op]), .end_op = first_op + 1};
  if (run.gate == nullptr || run.end_op + 1 >= program.ops.size()) return std::nullopt;
  run.up = std::get_if<Linear>(&program.ops[run.end_op]);
  run.slice = std::get_if<Slice>(&program.ops[run.end_op]);
  if (run.up != nullptr || run.slice != nullptr) ++run.end_op;
  run.activation = std::get_if<GatedActivation>(&program.ops[run.end_op++]);
  if (run.activation == nullptr || !is_same(program, run.activation->gate, run.gate->out) ||
      type_of(program, run.activation->gate).columns() != type_of(program, run.activation->up).columns() ||
      type_of(program, run.activation->gate).extent != type_of(program, run.gate->out).extent ||
      readers.outside(run.gate->out, first_op, run.end_op))
    return std::nullopt;
  if (is_same(program, run.activation->up, run.gate->out)) return std::nullopt;
  if (run.up != nullptr &&
      (!is_same(program, run.activation->up, run.up->out) || !is_same(program, run.up->x, run.gate->x) ||
       readers.outside(run.up->out, first_op, run.end_op)))
    return std::nullopt;
  if (run.slice != nullptr &&
      (!is_same(program, run.activation->up, run.slice->out) || is_same(program, run.slice->x, run.gate->out) ||
       readers.outside(run.slice->out, first_op, run.end_op)))
    return std::nullopt;
  return run;
}

// Adds the op to the run; false if it does not belong there.
bool take_of_conv(const Program& program, size_t most_parts, ConvRun& run, const Op& op) {
  const auto part_of = [&](ValueId value) {
    return std::ranges::find_if(run.parts, [&](const ConvPart& part) { return is_same(program, part.result, value); });
  };
  if (const auto* slice = std::get_if<Slice>(&op)) {
    uint64_t taken = 0;
    for (const ConvPart& part : run.parts) taken += type_of(program, part.result).columns();
    if (!is_same(program, slice->x, run.conv->out) || slice->stride != 1 || run.parts.size() == most_parts ||
        uint64_t{slice->first_head} * type_of(program, slice->x).width != taken)
      return false;
    run.parts.push_back({.norm = nullptr, .result = slice->out});
    return true;
  }
  if (const auto* norm = std::get_if<L2Norm>(&op)) {
    const auto part = part_of(norm->x);
    const uint32_t width = type_of(program, norm->x).width;
    if (part == run.parts.end() || part->norm != nullptr || (run.width != 0 && run.width != width)) return false;
    *part = {.norm = norm, .result = norm->out};
    run.width = width;
    return true;
  }
  if (const auto* gates = std::get_if<DeltaGates>(&op)) {
    if (run.gates != nullptr || type_of(program, gates->decay).extent != type_of(program, run.conv->out).extent)
      return false;
    run.gates = gates;
    return true;
  }
  return false;
}

// None: the run has fewer than two ops or no norm.
std::optional<ConvRun> conv_run(const Program& program, const FusionLimits& limits, const Readers& readers,
                                uint32_t first_op) {
  ConvRun run{.conv = std::get_if<ShortConv>(&program.ops[first_op]), .end_op = first_op + 1};
  if (run.conv == nullptr) return std::nullopt;
  while (run.end_op < program.ops.size() && take_of_conv(program, limits.conv_parts, run, program.ops[run.end_op]))
    ++run.end_op;
  uint64_t taken = 0;
  bool is_whole = run.width > 0;
  for (const ConvPart& part : run.parts) {
    const uint64_t columns = type_of(program, part.result).columns();
    is_whole = is_whole && columns % run.width == 0;
    taken += columns;
  }
  if (!is_whole || taken != type_of(program, run.conv->out).columns()) return std::nullopt;
  // Only the run may read values other than the parts' results. The gates must read none of the run's values, because
  // other workgroups compute them.
  for (uint32_t op = first_op; op < run.end_op; ++op)
    for_each_output(program.ops[op], [&](ValueId id) {
      const bool is_result = std::holds_alternative<DeltaGates>(program.ops[op]) ||
                             std::ranges::any_of(run.parts, [&](const ConvPart& part) { return part.result == id; });
      const bool is_of_gates =
          run.gates != nullptr && (is_same(program, id, run.gates->a) || is_same(program, id, run.gates->b));
      is_whole = is_whole && !is_of_gates && (is_result || !readers.outside(id, first_op, run.end_op));
    });
  return is_whole ? std::optional(run) : std::nullopt;
}

}  // namespace

ValueId row_made(const Program& program, uint32_t first, uint32_t end, ValueId value) {
  for (uint32_t op = first; op < end; ++op)
    if (const ValueId made = row_result(program, program.ops[op]); made != kNone && is_same(program, made, value))
      return made;
  return kNone;
}

namespace {

// Whether a run of heads makes only the queries of the attention behind it.
bool is_query_of_attention(const Program& program, const Readers& readers, const HeadRun& run, uint32_t first) {
  const uint32_t end = run.end_op;
  if (end == program.ops.size() || run.chains.size() != 1) return false;
  const auto* attention = std::get_if<Attention>(&program.ops[end]);
  const ValueId made = run.chains.front().result;
  return attention != nullptr && attention->begins_by_window() && !attention->expand && run.append == nullptr &&
         is_same(program, attention->q, made) && type_of(program, attention->q).heads == type_of(program, made).heads &&
         !readers.outside(made, first, end + 1);
}

// Products of the rows that ops [first, rows_end) make.
std::optional<FusedRun> products_of_rows(const Program& program, const FusionLimits& limits, const Readers& readers,
                                         uint32_t first, uint32_t rows_end) {
  if (rows_end == first || rows_end == program.ops.size()) return std::nullopt;
  const auto* linear = std::get_if<Linear>(&program.ops[rows_end]);
  if (linear == nullptr) return std::nullopt;
  const ValueId made = row_made(program, first, rows_end, linear->x);
  if (made == kNone || type_of(program, made).columns() != type_of(program, linear->x).columns() ||
      type_of(program, made).extent != type_of(program, linear->x).extent)
    return std::nullopt;
  FusedRun run{.kind = RunKind::linears,
               .first_op = first,
               .end_op = end_of_linears(program, limits, rows_end),
               .rows_end = rows_end};
  if (std::optional<GatedRun> gated = gated_run(program, limits, readers, rows_end)) {
    run.kind = RunKind::gated;
    run.end_op = gated->end_op;
    run.gated = gated;
  } else if (limits.linears == 0) {
    return std::nullopt;
  }
  uint64_t outputs = 0;
  bool is_of_row_alone = true;  // no operand but the row is made by the run
  for (uint32_t op = rows_end; op < run.end_op; ++op) {
    const auto* product = std::get_if<Linear>(&program.ops[op]);
    if (product != nullptr) outputs += program.weights[product->weight].shape.rows;
    for_each_input(program.ops[op], [&](ValueId id) {
      const bool is_row = product != nullptr && is_same(program, id, made);
      is_of_row_alone = is_of_row_alone && (is_row || row_made(program, first, rows_end, id) == kNone);
    });
  }
  if (outputs > limits.outputs_of_rows || !is_of_row_alone) return std::nullopt;
  return run;
}

std::optional<Finishing> finish_of(const Program& program, const Readers& readers, uint32_t first_op) {
  const auto* linear = std::get_if<Linear>(&program.ops[first_op]);
  const auto* transposed = std::get_if<LinearTransposed>(&program.ops[first_op]);
  if ((linear == nullptr && transposed == nullptr) || first_op + 1 == program.ops.size()) return std::nullopt;
  const ValueId made = linear != nullptr ? linear->out : transposed->out;
  Finishing run;
  if (const auto* add = std::get_if<Add>(&program.ops[first_op + 1])) {
    const bool is_first = is_same(program, add->a, made);
    run = {.out = add->out, .plus = is_first ? add->b : add->a};
    if ((!is_first && !is_same(program, add->b, made)) || is_same(program, run.plus, made)) return std::nullopt;
  } else if (const auto* scale = std::get_if<Scale>(&program.ops[first_op + 1])) {
    run = {.out = scale->out, .factor = scale->factor};
    if (scale->weight != kNone || !is_same(program, scale->x, made)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (type_of(program, run.out).columns() != type_of(program, made).columns() ||
      type_of(program, run.out).extent != type_of(program, made).extent ||
      readers.outside(made, first_op, first_op + 2))
    return std::nullopt;
  return run;
}

// What the program has recorded for an adapter forwards: W x; inner = scale (A x); W x + B inner.
std::optional<JoinedRun> joined_forwards(const Program& program, const Readers& readers, uint32_t first_op) {
  if (first_op + 5 > program.ops.size()) return std::nullopt;
  const auto* wide = std::get_if<Linear>(&program.ops[first_op]);
  const auto* inner = std::get_if<Linear>(&program.ops[first_op + 1]);
  const auto* narrow = std::get_if<Linear>(&program.ops[first_op + 3]);
  if (wide == nullptr || inner == nullptr || narrow == nullptr) return std::nullopt;
  const std::optional<Finishing> made = finish_of(program, readers, first_op + 1);
  const std::optional<Finishing> sum = finish_of(program, readers, first_op + 3);
  if (!made || made->plus != kNone || !is_same(program, made->out, narrow->x) || !sum || sum->plus == kNone ||
      !is_same(program, sum->plus, wide->out) || is_same(program, inner->x, wide->out) ||
      type_of(program, narrow->x).columns() > type_of(program, wide->x).columns() ||
      readers.outside(wide->out, first_op, first_op + 5))
    return std::nullopt;
  return JoinedRun{.wide_op = first_op, .narrow_op = first_op + 3, .finish = {.out = sum->out}, .inner = made};
}

// Backwards: A^T d, added to what is known of the gradient, if anything is; then W^T d, added to both.
std::optional<JoinedRun> joined_backwards(const Program& program, const Readers& readers, uint32_t first_op) {
  const auto* narrow = std::get_if<LinearTransposed>(&program.ops[first_op]);
  if (narrow == nullptr) return std::nullopt;
  const std::optional<Finishing> known = finish_of(program, readers, first_op);
  if (known && known->plus == kNone) return std::nullopt;
  const uint32_t wide_op = first_op + (known ? 2 : 1);
  const ValueId before = known ? known->out : narrow->out;
  if (wide_op + 2 > program.ops.size()) return std::nullopt;
  const auto* wide = std::get_if<LinearTransposed>(&program.ops[wide_op]);
  const std::optional<Finishing> sum = finish_of(program, readers, wide_op);
  if (wide == nullptr || !sum || sum->plus == kNone || !is_same(program, sum->plus, before) ||
      is_same(program, wide->x, before) ||
      type_of(program, narrow->x).columns() > type_of(program, wide->x).columns() ||
      readers.outside(before, first_op, wide_op + 2))
    return std::nullopt;
  return JoinedRun{
      .wide_op = wide_op, .narrow_op = first_op, .finish = {.out = sum->out, .plus = known ? known->plus : kNone}};
}

std::optional<JoinedRun> joined_run(const Program& program, const Readers& readers, uint32_t first_op) {
  const std::optional<JoinedRun> run = joined_forwards(program, readers, first_op);
  return run ? run : joined_backwards(program, readers, first_op);
}

// The run that begins with that op. A run of fewer than two ops is none.
FusedRun run_at(const Program& program, const FusionLimits& limits, const Readers& readers, uint32_t op) {
  FusedRun run{.kind = RunKind::rows, .first_op = op, .end_op = end_of_rows(program, limits, op)};
  if (std::optional<HeadRun> heads = head_run(program, limits, readers, op); heads && heads->end_op > run.end_op)
    run = {.kind = RunKind::heads, .first_op = op, .end_op = heads->end_op, .heads = std::move(heads)};
  if (std::optional<ConvRun> conv = conv_run(program, limits, readers, op))
    return {.kind = RunKind::short_conv, .first_op = op, .end_op = conv->end_op, .conv = std::move(conv)};
  if (std::optional<GatedRun> gated = gated_run(program, limits, readers, op))
    return {.kind = RunKind::gated, .first_op = op, .end_op = gated->end_op, .gated = gated};
  if (limits.joined)
    if (const std::optional<JoinedRun> joined = joined_run(program, readers, op))
      return {.kind = RunKind::joined,
              .first_op = op,
              .end_op = std::max(joined->wide_op, joined->narrow_op) + 2,
              .joined = joined};
  if (limits.finished)
    if (std::optional<Finishing> finish = finish_of(program, readers, op))
      return {.kind = RunKind::finished, .first_op = op, .end_op = op + 2, .finish = finish};
  if (const uint32_t end = end_of_linears(program, limits, op); end > run.end_op)
    return {.kind = RunKind::linears, .first_op = op, .end_op = end};
  if (run.kind == RunKind::heads && limits.attention && is_query_of_attention(program, readers, *run.heads, op)) {
    run.rows_end = run.end_op;
    ++run.end_op;
  }
  if (run.kind == RunKind::rows)
    if (std::optional<FusedRun> products = products_of_rows(program, limits, readers, op, run.end_op))
      return std::move(*products);
  return run;
}

}  // namespace

std::vector<FusedRun> find_runs(const Program& program, const FusionLimits& limits) {
  const Readers readers(program);
  std::vector<FusedRun> runs;
  for (uint32_t op = 0; op < program.ops.size();) {
    FusedRun run = run_at(program, limits, readers, op);
    op = std::max(run.end_op, op + 1);
    if (run.end_op >= run.first_op + 2) runs.push_back(std::move(run));
  }
  // Guesses are not played.
  std::erase_if(runs, [&](const FusedRun& run) {
    return std::ranges::any_of(program.guesses, [&](const ExpertGuess& guess) {
      return run.first_op < guess.end_op && guess.first_op < run.end_op;
    });
  });
  return runs;
}

std::vector<OpRange> op_ranges(std::span<const FusedRun> runs) {
  std::vector<OpRange> ranges;
  ranges.reserve(runs.size());
  for (const FusedRun& run : runs) ranges.push_back({.first_op = run.first_op, .end_op = run.end_op});
  return ranges;
}

}  // namespace sluice

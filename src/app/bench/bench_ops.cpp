#include "app/bench/bench_ops.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "graph/operands.h"

namespace sluice {
namespace {

std::string format_and_shape(const CostFacts& facts, WeightId id) {
  const WeightShape& shape = facts.program->weights[id].shape;
  return cat(format_name(facts.formats[id]), ' ', shape.experts == 1 ? "" : cat(shape.experts, " x "), shape.rows,
             " x ", shape.columns);
}

// The shape of a row of the op's first result; if the op has none, of its first input.
std::string row_shape(const Program& program, const Op& op) {
  ValueId first = kNone;
  const auto take = [&](ValueId id) { first = first == kNone ? id : first; };
  for_each_output(op, take);
  for_each_input(op, take);
  const ValueType& type = program.values[first].type;
  return type.heads == 1 ? cat(type.width) : cat(type.heads, " x ", type.width);
}

std::string shape_text(const CostFacts& facts, const OpTime& time) {
  std::string text;
  for (uint32_t op = time.first_op; op < time.end_op; ++op)
    for_each_weight(facts.program->ops[op], [&](WeightId id) {
      if (facts.program->weights[id].shape.rows > 1) text += cat(text.empty() ? "" : ", ", format_and_shape(facts, id));
    });
  return text.empty() ? row_shape(*facts.program, facts.program->ops[time.first_op]) : text;
}

bool in_blocks(const CostFacts& facts, const OpTime& time) {
  bool found = false;
  for (uint32_t op = time.first_op; op < time.end_op; ++op)
    for_each_weight(facts.program->ops[op],
                    [&](WeightId id) { found |= format_info(facts.formats[id]).block_elements > 1; });
  return found;
}

std::string name_of(const Program& program, const OpTime& time) {
  if (time.end_op == time.first_op + 1) return std::string(op_name(program.ops[time.first_op]));
  const auto block = std::ranges::find(program.blocks, time.first_op, &Block::first_op);
  return block == program.blocks.end() ? "several" : block_doc(block->kind).name;
}

}  // namespace

double OpShare::limit_share(double bandwidth, const Peaks& peaks) const {
  const double peak = blocks ? std::max(peaks.f32, peaks.integers) : peaks.f32;
  const double reading = bandwidth > 0 ? static_cast<double>(cost.bytes()) / bandwidth : 0;
  const double computing = peak > 0 ? static_cast<double>(cost.flops) / peak : 0;
  return std::max(reading, computing) / std::max(seconds, 1e-12);
}

std::vector<OpShare> op_shares(const CostFacts& facts, const std::vector<MeteredStep>& steps) {
  std::map<std::pair<std::string, std::string>, OpShare> found;
  std::map<std::pair<uint32_t, uint32_t>, OpShare*> known;  // by first and end op
  for (const MeteredStep& step : steps)
    for (const OpTime& time : step.op_times) {
      OpShare*& share = known[{time.first_op, time.end_op}];
      if (share == nullptr) {
        const auto key = std::pair(name_of(*facts.program, time), shape_text(facts, time));
        share = &found.try_emplace(key, OpShare{.op = key.first, .shape = key.second}).first->second;
        share->blocks = in_blocks(facts, time);
      }
      ++share->calls;
      share->seconds += static_cast<double>(time.nanoseconds) * 1e-9;
      for (uint32_t op = time.first_op; op < time.end_op; ++op) share->cost += op_cost(facts, op, step.work);
    }
  std::vector<OpShare> shares;
  shares.reserve(found.size());
  for (auto& [key, share] : found) shares.push_back(std::move(share));
  std::ranges::sort(shares, std::greater(), &OpShare::seconds);
  return shares;
}

}  // namespace sluice

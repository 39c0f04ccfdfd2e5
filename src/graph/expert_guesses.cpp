#include "graph/expert_guesses.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/operands.h"

namespace sluice {
namespace {

struct Ends {
  ValueId* from = nullptr;
  ValueId* to = nullptr;
};

// Input and output of an op that may stand between a hidden state and a router's logits; none: another op.
std::optional<Ends> ends_of(Op& op) {
  if (auto* const linear = std::get_if<Linear>(&op)) return Ends{&linear->x, &linear->out};
  if (auto* const norm = std::get_if<RmsNorm>(&op)) return Ends{&norm->x, &norm->out};
  if (auto* const scale = std::get_if<Scale>(&op)) return Ends{&scale->x, &scale->out};
  return std::nullopt;
}

// A router's ops from the hidden state on, and the op of the experts that it chooses.
struct Router {
  uint32_t route = 0;
  uint32_t experts = 0;
  ValueId hidden = kNone;
  std::vector<uint32_t> ops{};  // between the two, in order
};

Router router_of(Program& program, uint32_t experts) {
  const ValueId index = std::get<Experts>(program.ops[experts]).index;
  Router router{.experts = experts};
  for (uint32_t op = experts; op-- > 0;) {
    if (const auto* const route = std::get_if<Route>(&program.ops[op]); route != nullptr && route->index == index) {
      router.route = op;
      router.hidden = route->logits;
    }
    const std::optional<Ends> ends = ends_of(program.ops[op]);
    if (!ends || *ends->to != router.hidden) continue;
    router.hidden = *ends->from;
    router.ops.insert(router.ops.begin(), op);
  }
  return router;
}

std::vector<Router> routers(Program& program) {
  std::vector<Router> all;
  for (uint32_t op = 0; op < program.ops.size(); ++op)
    if (std::holds_alternative<Experts>(program.ops[op])) all.push_back(router_of(program, op));
  return all;
}

// A value with the type of another one and the rows of `rows`.
ValueId copy_value(Program& program, ValueId value, ValueId rows) {
  const auto id = static_cast<ValueId>(program.values.size());
  ValueInfo info{.type = program.values[value].type, .storage = id};
  info.type.extent = program.values[rows].type.extent;
  program.values.push_back(info);
  return id;
}

// Copies the ops of `next` onto the hidden state that `here` reads.
std::vector<Op> guess(Program& program, const Router& here, const Router& next) {
  std::vector<Op> ops;
  ops.reserve(next.ops.size() + 1);
  ValueId x = here.hidden;
  for (const uint32_t op : next.ops) {
    Op copy = program.ops[op];
    const Ends ends = *ends_of(copy);
    *ends.from = x;
    x = *ends.to = copy_value(program, *ends.to, here.hidden);
    ops.push_back(copy);
  }
  Route route = std::get<Route>(program.ops[next.route]);
  route.logits = x;
  route.index = copy_value(program, route.index, here.hidden);
  route.weight = copy_value(program, route.weight, here.hidden);
  ops.emplace_back(route);
  return ops;
}

// The copied ops of a router for the op `experts`, which go before op `at`.
struct Guess {
  uint32_t at = 0;
  uint32_t experts = 0;
  std::vector<Op> ops{};
};

// Inserts the ops. A block into which ops are inserted is no block any more.
void insert(Program& program, std::vector<Guess> guesses) {
  std::vector<Op> ops;
  std::vector<int32_t> layers;
  std::vector<uint32_t> now_at(program.ops.size());
  auto next = guesses.begin();
  for (uint32_t op = 0; op < program.ops.size(); ++op) {
    if (next != guesses.end() && next->at == op) {
      const auto first = static_cast<uint32_t>(ops.size());
      ops.insert(ops.end(), next->ops.begin(), next->ops.end());
      layers.insert(layers.end(), next->ops.size(), program.layers[op]);
      program.guesses.push_back({.first_op = first, .end_op = first + static_cast<uint32_t>(next->ops.size())});
      ++next;
    }
    now_at[op] = static_cast<uint32_t>(ops.size());
    ops.push_back(program.ops[op]);
    layers.push_back(program.layers[op]);
  }
  for (size_t i = 0; i < guesses.size(); ++i) program.guesses[i].experts = now_at[guesses[i].experts];
  std::erase_if(program.blocks, [&](const Block& block) {
    return std::ranges::any_of(guesses,
                               [&](const Guess& one) { return block.first_op < one.at && one.at < block.end_op; });
  });
  for (Block& block : program.blocks) {
    block.end_op = now_at[block.end_op - 1] + 1;
    block.first_op = now_at[block.first_op];
  }
  program.ops = std::move(ops);
  program.layers = std::move(layers);
}

}  // namespace

Program with_expert_guesses(Program program) {
  const std::vector<Router> all = routers(program);
  std::vector<Guess> guesses;
  for (size_t i = 1; i < all.size(); ++i) {
    const Router &here = all[i - 1], &next = all[i];
    const bool alike = here.ops.size() == next.ops.size() &&
                       program.values[here.hidden].type.columns() == program.values[next.hidden].type.columns();
    if (alike) guesses.push_back({.at = here.route, .experts = next.experts, .ops = guess(program, here, next)});
  }
  insert(program, std::move(guesses));
  return program;
}

}  // namespace sluice

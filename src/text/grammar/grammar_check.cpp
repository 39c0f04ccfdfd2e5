#include "text/grammar/grammar_check.h"

#include <algorithm>
#include <span>

namespace sluice {
namespace {

using Kind = GrammarNode::Kind;

constexpr uint32_t kMaxEmptyRounds = 64;

std::span<const uint32_t> branches_of(const Grammar& grammar, const GrammarNode& node) {
  const uint32_t begin = node.of == 0 ? 0 : grammar.branch_ends[node.of - 1];
  return std::span(grammar.branches).subspan(begin, grammar.branch_ends[node.of] - begin);
}

}  // namespace

GrammarCheck::GrammarCheck(Grammar& grammar) : grammar_(&grammar) {
  nullable_ = fixed_point([&](const GrammarNode& node, const std::vector<bool>& known) {
    switch (node.kind) {
      case Kind::end: return true;
      case Kind::bytes: return false;
      case Kind::split:
        return std::ranges::any_of(branches_of(grammar, node), [&](uint32_t branch) { return bool{known[branch]}; });
      case Kind::call: return known[node.of] && known[node.next];
      case Kind::loop:
        return (grammar.loops[node.of].least == 0 || known[grammar.loops[node.of].body]) && known[node.next];
    }
    return false;
  });
}

std::vector<uint32_t> GrammarCheck::successors(uint32_t node) const {
  const GrammarNode& one = grammar_->nodes[node];
  switch (one.kind) {
    case Kind::end: return {};
    case Kind::bytes: return {one.next};
    case Kind::split: {
      const auto branches = branches_of(*grammar_, one);
      return {branches.begin(), branches.end()};
    }
    case Kind::call: return {one.of, one.next};
    case Kind::loop: return {grammar_->loops[one.of].body, one.next};
  }
  return {};
}

template <class Holds>
std::vector<bool> GrammarCheck::fixed_point(const Holds& holds) const {
  const size_t count = grammar_->nodes.size();
  std::vector<uint32_t> begins(count + 1), users;
  std::vector<std::vector<uint32_t>> all(count);
  for (uint32_t node = 0; node < count; ++node) {
    all[node] = successors(node);
    for (const uint32_t to : all[node]) ++begins[to + 1];
  }
  for (size_t i = 0; i < count; ++i) begins[i + 1] += begins[i];
  users.resize(begins[count]);
  std::vector<uint32_t> filled(begins.begin(), begins.end() - 1);
  for (uint32_t node = 0; node < count; ++node)
    for (const uint32_t to : all[node]) users[filled[to]++] = node;

  std::vector<bool> known(count);
  std::vector<uint32_t> work;
  const auto look_at = [&](uint32_t node) {
    if (known[node] || !holds(grammar_->nodes[node], known)) return;
    known[node] = true;
    work.push_back(node);
  };
  for (uint32_t node = 0; node < count; ++node) look_at(node);
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    for (uint32_t i = begins[node]; i < begins[node + 1]; ++i) look_at(users[i]);
  }
  return known;
}

void GrammarCheck::mark_dead() {
  const std::vector<bool> alive = fixed_point([&](const GrammarNode& node, const std::vector<bool>& known) {
    switch (node.kind) {
      case Kind::end: return true;
      case Kind::bytes: return bool{known[node.next]};
      case Kind::split:
        return std::ranges::any_of(branches_of(*grammar_, node), [&](uint32_t branch) { return bool{known[branch]}; });
      case Kind::call: return known[node.of] && known[node.next];
      case Kind::loop:
        return (grammar_->loops[node.of].least == 0 || known[grammar_->loops[node.of].body]) && known[node.next];
    }
    return false;
  });
  for (size_t i = 0; i < alive.size(); ++i) grammar_->nodes[i].dead = !alive[i];
}

std::vector<uint32_t> GrammarCheck::unread_successors(uint32_t node, size_t* entries) const {
  const GrammarNode& one = grammar_->nodes[node];
  *entries = 0;
  if (one.dead || one.kind == Kind::end || one.kind == Kind::bytes) return {};
  if (one.kind == Kind::split) return successors(node);
  *entries = 1;
  const uint32_t body = one.kind == Kind::call ? one.of : grammar_->loops[one.of].body;
  const bool passes = nullable_[body] || (one.kind == Kind::loop && grammar_->loops[one.of].least == 0);
  return passes ? std::vector{body, one.next} : std::vector{body};
}

// Tarjan's strongly connected components (1972) with a stack of our own. A call that enters its own component is a left
// recursion.
std::optional<uint32_t> GrammarCheck::left_recursion() const {
  const size_t count = grammar_->nodes.size();
  constexpr uint32_t kNew = UINT32_MAX;
  std::vector<uint32_t> order(count, kNew), low(count), component(count, kNew);
  std::vector<uint32_t> open;
  struct Visit {
    uint32_t node;
    size_t next;
    std::vector<uint32_t> to;
  };
  std::vector<Visit> path;
  uint32_t time = 0, components = 0;
  size_t entries = 0;
  const auto enter = [&](uint32_t node) {
    order[node] = low[node] = time++;
    open.push_back(node);
    path.push_back({node, 0, unread_successors(node, &entries)});
  };
  for (uint32_t root = 0; root < count; ++root) {
    if (order[root] != kNew) continue;
    enter(root);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next < visit.to.size()) {
        const uint32_t to = visit.to[visit.next++];
        if (order[to] == kNew)
          enter(to);
        else if (component[to] == kNew)
          low[visit.node] = std::min(low[visit.node], order[to]);
        continue;
      }
      const uint32_t node = visit.node;
      path.pop_back();
      if (!path.empty()) low[path.back().node] = std::min(low[path.back().node], low[node]);
      if (low[node] != order[node]) continue;
      for (uint32_t member = kNew; member != node;) {
        member = open.back();
        open.pop_back();
        component[member] = components;
      }
      ++components;
    }
  }
  for (uint32_t node = 0; node < count; ++node) {
    const std::vector<uint32_t> to = unread_successors(node, &entries);
    if (entries == 1 && component[to.front()] == component[node]) return to.front();
  }
  return std::nullopt;
}

bool GrammarCheck::repeats_nothing() const {
  return std::ranges::any_of(grammar_->loops, [&](const GrammarLoop& loop) {
    return nullable_[loop.body] && std::max(loop.least, loop.most == kUnbounded ? 0 : loop.most) > kMaxEmptyRounds;
  });
}

}  // namespace sluice

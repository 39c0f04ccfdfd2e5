#include "engine/state/prefix_tree.h"

#include <algorithm>

namespace sluice {

PrefixTree::Key PrefixTree::key(uint32_t parent, const History& history, size_t first) const {
  Key key{parent, {}};
  for (size_t i = 0; i < kCut; ++i) {
    key.second[i] = history[first + i];
    if (any_class_) key.second[i].token_class = TokenClass::prompt;
  }
  return key;
}

// Roots are never forgotten: there are as many as there were sums of adapters.
uint32_t PrefixTree::root_of(const std::string& adapters) {
  if (adapters.empty()) return 0;
  const auto [root, added] = roots_.try_emplace(adapters);
  if (added) root->second = ++last_id_;
  return root->second;
}

const Snapshot* PrefixTree::find(const History& history, size_t limit, const std::string& adapters) {
  const uint32_t root = root_of(adapters);
  limit = std::min(limit, history.size());
  auto node = nodes_.end();
  auto best = nodes_.end();
  for (size_t first = 0; first + kCut <= limit; first += kCut) {
    node = nodes_.find(key(id_of(node, root), history, first));
    if (node == nodes_.end()) break;
    if (node->second.snapshot) best = node;
  }
  if (best == nodes_.end()) return nullptr;
  best->second.used = ++clock_;
  best->second.snapshot->at_boundary = true;  // at the end of a common prefix
  return &*best->second.snapshot;
}

void PrefixTree::insert(const History& history, Snapshot snapshot, const std::string& adapters) {
  const uint32_t root = root_of(adapters);
  CHECK(snapshot.length > 0 && snapshot.length % kCut == 0 && snapshot.length <= history.size());
  auto node = nodes_.end();
  for (size_t first = 0; first < snapshot.length; first += kCut) {
    const auto parent = node;
    bool added = false;
    std::tie(node, added) = nodes_.try_emplace(key(id_of(parent, root), history, first));
    if (!added) continue;
    node->second.id = ++last_id_;
    node->second.parent = parent;
    if (parent != nodes_.end()) ++parent->second.children;
  }
  node->second.used = ++clock_;
  if (node->second.snapshot) {
    node->second.snapshot->at_boundary |= snapshot.at_boundary;
    return;
  }
  node->second.snapshot = std::move(snapshot);
  ++snapshots_;
}

bool PrefixTree::evict() {
  const auto rank = [](const Node& node) { return std::pair(node.snapshot->at_boundary, node.used); };
  auto oldest = nodes_.end();
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
    if (!node->second.snapshot) continue;
    if (oldest == nodes_.end() || rank(node->second) < rank(oldest->second)) oldest = node;
  }
  if (oldest == nodes_.end()) return false;
  oldest->second.snapshot.reset();
  --snapshots_;
  prune(oldest);
  return true;
}

void PrefixTree::prune(Nodes::iterator node) {
  while (node != nodes_.end() && node->second.children == 0 && !node->second.snapshot) {
    const auto parent = node->second.parent;
    nodes_.erase(node);
    if (parent != nodes_.end()) --parent->second.children;
    node = parent;
  }
}

void PrefixTree::clear() {
  nodes_.clear();
  snapshots_ = 0;
}

}  // namespace sluice

// PrefixTree: snapshots by history. A request that begins like an earlier one goes on from the earlier one's snapshot.
//
// A snapshot holds page references for the first `length` positions of a history, a multiple of 64: all pages of groups
// without a window, and the pages that position `length` sees of others. The tree's key is the history itself, in
// blocks of 64 elements: token, class (unless classes are bit-equal), and the row of a picture or sound. Histories that
// were computed with other adapters stand in a tree of their own.
//
// Only an open sequence keeps the exact end of a conversation. A request that equals a snapshot's history computes its
// last block again, at most 64 rows, so no hidden row is kept. When pages are short, snapshots within long texts are
// evicted before those at the end of messages, prompts and answers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/history.h"
#include "engine/state/pages.h"

namespace sluice {

struct Snapshot {
  uint32_t length = 0;
  std::vector<PageTable> tables = {};  // by group
  bool at_boundary = true;             // at the end of a message, a prompt or an answer
};

class PrefixTree {
 public:
  explicit PrefixTree(bool any_class) : any_class_(any_class) {}

  // The longest snapshot of at most `limit` positions with which `history` begins, or nullptr. Valid until the next
  // change of the tree.
  const Snapshot* find(const History& history, size_t limit, const std::string& adapters = {});
  // Keeps the old snapshot if there is one already.
  void insert(const History& history, Snapshot snapshot, const std::string& adapters = {});
  // Evicts the least recently found or inserted snapshot, first among those at no boundary; false when there is none.
  bool evict();
  void clear();
  size_t size() const { return snapshots_; }

 private:
  using Block = std::array<HistoryToken, kCut>;
  using Key = std::pair<uint32_t, Block>;  // the parent's id and the block
  struct Node {
    uint32_t id = 0;
    std::map<Key, Node>::iterator parent;  // nodes_.end(): a first block
    uint32_t children = 0;
    uint64_t used = 0;
    std::optional<Snapshot> snapshot;
  };
  // A flat map, because a path is as long as a context and recursion along it would be too deep.
  using Nodes = std::map<Key, Node>;

  Key key(uint32_t parent, const History& history, size_t first) const;
  uint32_t id_of(Nodes::iterator node, uint32_t root) const { return node == nodes_.end() ? root : node->second.id; }
  uint32_t root_of(const std::string& adapters);
  void prune(Nodes::iterator node);

  bool any_class_;
  Nodes nodes_;
  std::map<std::string, uint32_t> roots_;  // parent of first blocks, by adapters; 0 without
  size_t snapshots_ = 0;
  uint32_t last_id_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace sluice

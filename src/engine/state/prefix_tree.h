// Snapshots by history: what a request finds when it begins as an earlier one did.
//
// A snapshot holds page references for the first `length` positions of a history, a multiple of 64: all pages of
// groups without a window, else those that position `length` still sees. The tree's key is the history, block by block
// of 64 elements, never arithmetic on positions: tokens, their classes, and which row of which picture or sound stands
// there. Where classes are bit-equal they are not part of it. The
// exact end of a conversation is held by its open sequence instead, and an exact hit computes its last block again
// rather than keeping a hidden row: at most 64 rows, and nothing that only some devices could give back.
//
// Where pages are short, snapshots that stand within a text only for its length go before those at the end of messages,
// prompts and answers, from which conversations go on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/history.h"
#include "engine/state/pages.h"

namespace sluice {

struct Snapshot {
  uint32_t length = 0;
  std::vector<PageTable> tables = {};  // by group
  bool at_boundary = true;             // of a message, a prompt or an answer
};

class PrefixTree {
 public:
  explicit PrefixTree(bool any_class) : any_class_(any_class) {}

  // The longest snapshot of at most `limit` positions that `history` begins with, or nullptr. Valid until the next
  // change of the tree.
  const Snapshot* find(const History& history, size_t limit);
  // A snapshot that stands already stays.
  void insert(const History& history, Snapshot snapshot);
  // Forgets the least recently found or inserted, first among those at no boundary; false when there is none.
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
  // Flat, because a path is as long as a context and must not be walked by recursion.
  using Nodes = std::map<Key, Node>;

  Key key(uint32_t parent, const History& history, size_t first) const;
  uint32_t id_of(Nodes::iterator node) const { return node == nodes_.end() ? 0 : node->second.id; }
  void prune(Nodes::iterator node);

  bool any_class_;
  Nodes nodes_;
  size_t snapshots_ = 0;
  uint32_t last_id_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace sluice

#include "text/grammar/token_mask.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice {
namespace {

struct Bytes {
  uint8_t first, last;
};
// The well-formed characters of several bytes (Unicode 15, table 3-7).
constexpr std::array<std::array<Bytes, 4>, 8> kCharacters = {{
    {{{0xc2, 0xdf}, {0x80, 0xbf}, {1, 0}, {1, 0}}},
    {{{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}, {1, 0}}},
    {{{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}, {1, 0}}},
    {{{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}, {1, 0}}},
    {{{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}, {1, 0}}},
    {{{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {{{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {{{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
}};

// The state behind the bytes of a row of the table, from `part` on, if it is the same one for all of them; else none.
std::optional<Automaton::State> behind_all(Automaton& automaton, Automaton::State state, size_t character,
                                           size_t part) {
  std::vector<Automaton::State> from = {state}, to;
  for (; part < 4; ++part) {
    const auto [first, last] = kCharacters[character][part];
    if (first > last) break;
    to.clear();
    for (const Automaton::State one : from)
      for (uint32_t byte = first; byte <= last; ++byte)
        if (const Automaton::State next = automaton.next(one, static_cast<uint8_t>(byte));
            std::ranges::find(to, next) == to.end())
          to.push_back(next);
    from.swap(to);
  }
  return from.size() == 1 ? std::optional(from.front()) : std::nullopt;
}

}  // namespace

TokenMask::TokenMask(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
                     std::vector<int32_t> ends, std::vector<TokenMarker> markers, size_t room)
    : automaton_(std::move(grammar), room / 2),
      trie_(std::move(trie)),
      ends_(std::move(ends)),
      markers_(std::move(markers)),
      room_(room / 2),
      state_(automaton_.start()) {
  path_.resize(trie_->depth() + 1);
}

Result<std::span<const uint32_t>> TokenMask::allowed() {
  TRY(const Mask* found, mask());
  return std::span<const uint32_t>(found->bits);
}

std::optional<int32_t> TokenMask::only() {
  const Result<const Mask*> found = mask();
  return found ? (*found)->only : std::nullopt;
}

void TokenMask::forget_beyond_room() {
  bool forgot = false;
  state_ = automaton_.renew(state_, &forgot);
  if (forgot || masks_.size() * trie_->words() * sizeof(uint32_t) > room_) masks_.clear();
  if (!forgot) return;
  behind_plain_ = {};
  free_behind_ = {};
}

Result<const TokenMask::Mask*> TokenMask::mask() {
  forget_beyond_room();
  auto found = masks_.find(state_);
  if (found == masks_.end()) {
    TokenBits bits = compute();
    if (automaton_.exhausted())
      return error(ErrorKind::unsupported,
                   "the grammar is too ambiguous to follow: want one with fewer ways to read a text");
    const auto first = std::ranges::find_if(bits, [](uint32_t word) { return word != 0; });
    if (first == bits.end())
      return error(ErrorKind::unsupported, "no token of the vocabulary goes on as the grammar wants");
    const bool is_alone =
        std::has_single_bit(*first) && std::all_of(first + 1, bits.end(), [](uint32_t word) { return word == 0; });
    std::optional<int32_t> only;
    if (is_alone) only = static_cast<int32_t>((first - bits.begin()) * 32 + std::countr_zero(*first));
    forget_beyond_room();  // a large grammar's states that this mask has met
    found = masks_.emplace(state_, Mask{std::move(bits), only}).first;
  }
  return &found->second;
}

bool TokenMask::accept(int32_t token, std::string_view bytes) {
  if (std::ranges::find(ends_, token) != ends_.end()) return can_end();
  const auto marker = std::ranges::find(markers_, token, &TokenMarker::token);
  const std::string as_marker = marker == markers_.end() ? std::string() : marker_text(marker->number);
  if (marker != markers_.end()) bytes = as_marker;
  state_ = automaton_.next(state_, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  return state_ != Automaton::kDead && !bytes.empty();
}

TokenBits TokenMask::compute() {
  TokenBits bits(trie_->words());
  if (state_ == Automaton::kDead) return bits;
  walk(trie_->others(), bits);
  if (!add_plain(bits)) walk_plain(bits);
  for (const auto& [one, twin] : trie_->twins())
    if (has_bit(bits, one)) set_bit(bits, twin);
  for (const TokenMarker& marker : markers_) {
    const Automaton::State behind = automaton_.next(automaton_.next(state_, kMarkerByte), uint8_t(marker.number));
    put_bit(bits, marker.token, behind != Automaton::kDead);
  }
  for (const int32_t end : ends_) put_bit(bits, end, automaton_.can_end(state_));
  return bits;
}

void TokenMask::walk(std::span<const TokenTrie::Node> nodes, TokenBits& bits) {
  path_[0] = state_;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Automaton::State to = automaton_.next(path_[node.depth], node.byte);
    if (to == Automaton::kDead) {
      i = node.behind;
      continue;
    }
    if (node.token >= 0) set_bit(bits, node.token);
    path_[node.depth + size_t{1}] = to;
    ++i;
  }
}

// Whether any plain text may come behind the byte, which has led to the state. Plain tokens are whole characters, so
// of the first byte of a character that holds if it holds behind all others that may follow the byte.
bool TokenMask::is_free(Automaton::State state, uint8_t byte) {
  if (byte < 0xc2) return behind_plain(state) == state;
  for (size_t row = 0; row < kCharacters.size(); ++row)
    if (byte >= kCharacters[row][0].first && byte <= kCharacters[row][0].last) return is_free_behind(state, row);
  return false;
}

bool TokenMask::is_free_behind(Automaton::State state, size_t character) {
  const uint64_t key = uint64_t{state} * kCharacters.size() + character;
  const auto found = free_behind_.find(key);
  if (found != free_behind_.end()) return found->second;
  const std::optional<Automaton::State> behind = behind_all(automaton_, state, character, /*part=*/1);
  const bool is_free = behind && *behind != Automaton::kDead && behind_plain(*behind) == *behind;
  free_behind_.emplace(key, is_free);
  return is_free;
}

// Whether more of the tree's nodes lie behind bytes that any plain text may follow than behind those that may not come.
bool TokenMask::mostly_free() {
  const std::span<const TokenTrie::Node> nodes = trie_->plain();
  size_t free = 0, dead = 0;
  for (size_t i = 0; i < nodes.size(); i = nodes[i].behind) {
    const Automaton::State to = automaton_.next(state_, nodes[i].byte);
    if (to == Automaton::kDead)
      dead += nodes[i].behind - i;
    else if (is_free(to, nodes[i].byte))
      free += nodes[i].behind - i;
  }
  return free > dead;
}

// Begins with all plain tokens, or with none, whichever leaves less to do.
void TokenMask::walk_plain(TokenBits& bits) {
  const std::span<const TokenTrie::Node> nodes = trie_->plain();
  const bool from_all = mostly_free();
  if (from_all) {
    const TokenBits& all = trie_->plain_up_to(TokenTrie::kMostPlain);
    for (size_t word = 0; word < bits.size(); ++word) bits[word] |= all[word];
  }
  const auto put_all = [&](size_t begin, size_t end, bool value) {
    if (value == from_all) return;
    for (size_t i = begin; i < end; ++i)
      if (nodes[i].token >= 0) put_bit(bits, nodes[i].token, value);
  };
  path_[0] = state_;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Automaton::State to = automaton_.next(path_[node.depth], node.byte);
    const bool is_dead = to == Automaton::kDead;
    if (is_dead || is_free(to, node.byte)) {
      put_all(i, node.behind, !is_dead);
      i = node.behind;
      continue;
    }
    put_all(i, i + 1, true);
    path_[node.depth + size_t{1}] = to;
    ++i;
  }
}

bool TokenMask::add_plain(TokenBits& bits) {
  Automaton::State at = state_;
  uint32_t characters = 0;
  for (; characters < TokenTrie::kMostPlain; ++characters) {
    const std::optional<Automaton::State> next = behind_plain(at);
    if (!next) return false;
    if (*next == Automaton::kDead) break;
    if (*next == at) {
      characters = TokenTrie::kMostPlain;
      break;
    }
    at = *next;
  }
  if (characters == 0) return true;
  const TokenBits& plain = trie_->plain_up_to(characters);
  for (size_t word = 0; word < bits.size(); ++word) bits[word] |= plain[word];
  return true;
}

std::optional<Automaton::State> TokenMask::behind_plain(Automaton::State state) {
  const auto found = behind_plain_.find(state);
  if (found != behind_plain_.end()) return found->second;
  const std::optional<Automaton::State> behind = find_behind_plain(state);
  behind_plain_.emplace(state, behind);
  return behind;
}

std::optional<Automaton::State> TokenMask::find_behind_plain(Automaton::State state) {
  const Automaton::State behind = automaton_.next(state, 'a');
  for (uint8_t byte = 0x20; byte < 0x80; ++byte)
    if (is_plain(byte) && automaton_.next(state, byte) != behind) return std::nullopt;
  for (size_t character = 0; character < kCharacters.size(); ++character)
    if (behind_all(automaton_, state, character, /*part=*/0) != behind) return std::nullopt;
  return behind;
}

}  // namespace sluice

#include "text/bpe.h"

#include <algorithm>

#include "base/unicode.h"
#include "text/vocabulary_rules.h"

namespace sluice {
namespace {

constexpr size_t kJointBits = size_t{1} << 20;
constexpr size_t kShort = 64;  // up to this length scanning is faster than the heap

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

bool stands_for_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<uint32_t, 256> character{};
  std::array<int32_t, 0x180> byte{};
};
const Alphabet& alphabet() {
  static const Alphabet table = [] {
    Alphabet made;
    made.byte.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      made.character[byte] = stands_for_itself(byte) ? byte : next++;
      made.byte[made.character[byte]] = static_cast<int32_t>(byte);
    }
    return made;
  }();
  return table;
}

// Whether this token may be a symbol at the start or the result of a merge.
bool is_mergeable(const Token& token) {
  return token.kind != TokenKind::control && token.kind != TokenKind::unknown && token.kind != TokenKind::byte;
}

}  // namespace

uint32_t alphabet_character(uint8_t byte) { return alphabet().character[byte]; }
int32_t alphabet_byte(uint32_t code_point) {
  return code_point < alphabet().byte.size() ? alphabet().byte[code_point] : -1;
}

Bpe::Bpe(const Vocabulary& vocabulary)
    : byte_level_(vocabulary.kind == VocabularyKind::byte_level),
      fuse_unknown_(vocabulary.fuse_unknown),
      unknown_(vocabulary.unk.value_or(-1)),
      pairs_(vocabulary.merges.size()) {
  learn_characters(vocabulary);
  for (const Merge& merge : vocabulary.merges)
    pairs_.set(pair_key(merge.left, merge.right), {merge.rank, merge.result});
  learn_joints(vocabulary);
}

void Bpe::learn_characters(const Vocabulary& vocabulary) {
  byte_symbols_.fill(-1);
  ascii_symbols_.fill(-1);
  std::vector<std::pair<uint32_t, int32_t>> characters;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const Token& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    if (token.kind == TokenKind::byte) byte_symbols_[*byte_of(token.text)] = id;
    const Decoded c = decode_utf8(token.text);
    if (c.bytes == 0 || c.bytes != token.text.size() || !is_mergeable(token)) continue;
    characters.emplace_back(c.code_point, id);
    if (c.code_point < ascii_symbols_.size()) ascii_symbols_[c.code_point] = id;
    const int32_t byte = byte_level_ ? alphabet_byte(c.code_point) : -1;
    if (byte >= 0) byte_symbols_[static_cast<size_t>(byte)] = id;
  }
  character_symbols_ = FlatMap<int32_t>(characters.size());
  for (const auto& [code_point, id] : characters) character_symbols_.set(code_point, id);
}

// The first and last symbol of a token that merges produce: the symbols of its first and last character, or of its
// first and last byte.
class Bpe::Ends {
 public:
  Ends(const Bpe& bpe, const Token& token) {
    if (token.kind == TokenKind::byte || token.text.empty()) return;
    const std::string_view text = token.text;
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
    first_ = symbol(bpe, text);
    last_ = symbol(bpe, text.substr(last));
  }
  int32_t first() const { return first_; }
  int32_t last() const { return last_; }

 private:
  static int32_t symbol(const Bpe& bpe, std::string_view text) {
    const Decoded c = decode_utf8(text);
    const int32_t* found = c.bytes == 0 ? nullptr : bpe.character_symbols_.find(c.code_point);
    return found == nullptr ? -1 : *found;
  }
  int32_t first_ = -1;
  int32_t last_ = -1;
};

void Bpe::learn_joints(const Vocabulary& vocabulary) {
  joints_.assign(kJointBits / 64, 0);
  for (const Merge& merge : vocabulary.merges) {
    const Ends left(*this, vocabulary.tokens[static_cast<size_t>(merge.left)]);
    const Ends right(*this, vocabulary.tokens[static_cast<size_t>(merge.right)]);
    if (left.last() < 0 || right.first() < 0) {  // unknown end symbols: the text is never cut
      joints_.clear();
      return;
    }
    const size_t bit = joint_bit(left.last(), right.first());
    joints_[bit / 64] |= uint64_t{1} << bit % 64;
  }
}

size_t Bpe::joint_bit(int32_t left, int32_t right) {
  return (pair_key(left, right) * 0x9e3779b97f4a7c15ull >> 40) % kJointBits;
}

bool Bpe::may_join(int32_t left, int32_t right) const {
  if (joints_.empty()) return true;
  const size_t bit = joint_bit(left, right);
  return (joints_[bit / 64] >> bit % 64 & 1) != 0;
}

const Bpe::Pair* Bpe::find(int32_t left, int32_t right) const { return pairs_.find(pair_key(left, right)); }

// Symbols are appended to `ids` and merged in place, so that a word costs no allocation.
void Bpe::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const size_t begin = ids.size();
  if (byte_level_)
    bytes_to_symbols(text, ids);
  else
    characters_to_symbols(text, ids);
  size_t done = begin;
  size_t run = begin;
  for (size_t i = begin + 1; i <= ids.size(); ++i) {
    if (i < ids.size() && may_join(ids[i - 1], ids[i])) continue;
    done += merge(ids.data() + run, i - run, ids.data() + done);
    run = i;
  }
  ids.resize(done);
}

void Bpe::bytes_to_symbols(std::string_view text, std::vector<int32_t>& symbols) const {
  for (const char c : text) {
    const int32_t symbol = byte_symbols_[static_cast<unsigned char>(c)];
    if (symbol >= 0) symbols.push_back(symbol);
  }
}

void Bpe::characters_to_symbols(std::string_view text, std::vector<int32_t>& symbols) const {
  const size_t begin = symbols.size();
  const int32_t* mark = character_symbols_.find(decode_utf8(kSpaceMark).code_point);
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool space = byte == ' ';
    const Decoded c = space ? Decoded{0, 1} : byte < 0x80 ? Decoded{byte, 1} : decode_utf8(text.substr(at));
    const size_t length = std::max<size_t>(c.bytes, 1);
    const int32_t* wide = space ? mark : byte < 0x80 || c.bytes == 0 ? nullptr : character_symbols_.find(c.code_point);
    const int32_t symbol = wide != nullptr ? *wide : space || byte >= 0x80 ? -1 : ascii_symbols_[byte];
    if (symbol >= 0)
      symbols.push_back(symbol);
    else
      unknown_to_symbols(space ? kSpaceMark : text.substr(at, length), begin, symbols);
    at += length;
  }
}

// Appends the byte tokens of a character that is not a token, if all its bytes have one; else the unknown token.
void Bpe::unknown_to_symbols(std::string_view character, size_t begin, std::vector<int32_t>& symbols) const {
  const auto symbol = [&](char c) { return byte_symbols_[static_cast<unsigned char>(c)]; };
  if (std::all_of(character.begin(), character.end(), [&](char c) { return symbol(c) >= 0; })) {
    for (const char c : character) symbols.push_back(symbol(c));
  } else if (unknown_ >= 0) {
    const bool fused = fuse_unknown_ && symbols.size() > begin && symbols.back() == unknown_;
    if (!fused) symbols.push_back(unknown_);
  }
}

size_t Bpe::merge(const int32_t* symbols, size_t count, int32_t* ids) const {
  return count <= kShort ? merge_short(symbols, count, ids) : merge_long(symbols, count, ids);
}

size_t Bpe::merge_short(const int32_t* symbols, size_t count, int32_t* ids) const {
  int32_t parts[kShort];
  const Pair* pairs[kShort];  // of parts i and i + 1
  std::copy_n(symbols, count, parts);
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = find(parts[i], parts[i + 1]);
  for (;;) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i)
      if (pairs[i] != nullptr && (best == count || pairs[i]->rank < pairs[best]->rank)) best = i;
    if (best == count) break;
    parts[best] = pairs[best]->result;
    std::copy(parts + best + 2, parts + count, parts + best + 1);
    std::copy(pairs + best + 1, pairs + count - 1, pairs + best);
    --count;
    if (best > 0) pairs[best - 1] = find(parts[best - 1], parts[best]);
    if (best + 1 < count) pairs[best] = find(parts[best], parts[best + 1]);
  }
  std::copy_n(parts, count, ids);
  return count;
}

namespace {

// A merge that was possible when it was queued. It is stale if one of its parts has changed since then.
struct Queued {
  uint32_t rank;
  int32_t left, right, result;
  size_t at;
  // The heap's top is its greatest element: the lowest rank, then the leftmost.
  bool operator<(const Queued& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
};

struct Part {
  int32_t id;  // -1: merged into the part before it
  size_t before, after;
};

}  // namespace

size_t Bpe::merge_long(const int32_t* symbols, size_t count, int32_t* ids) const {
  std::vector<Part> parts(count);
  for (size_t i = 0; i < count; ++i) parts[i] = {symbols[i], i - 1, i + 1};
  std::vector<Queued> queue;
  const auto add = [&](size_t at) {
    const size_t next = parts[at].after;
    if (next >= count) return false;
    const Pair* pair = find(parts[at].id, parts[next].id);
    if (pair != nullptr) queue.push_back({pair->rank, parts[at].id, parts[next].id, pair->result, at});
    return pair != nullptr;
  };
  for (size_t i = 0; i + 1 < count; ++i) add(i);
  std::make_heap(queue.begin(), queue.end());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end());
    const Queued top = queue.back();
    queue.pop_back();
    Part& left = parts[top.at];
    if (left.id != top.left || left.after >= count || parts[left.after].id != top.right) continue;
    Part& right = parts[left.after];
    left.id = top.result;
    left.after = right.after;
    right.id = -1;
    if (left.after < count) parts[left.after].before = top.at;
    if (add(top.at)) std::push_heap(queue.begin(), queue.end());
    if (top.at > 0 && add(left.before)) std::push_heap(queue.begin(), queue.end());
  }
  int32_t* end = ids;
  for (size_t i = 0; i < count; i = parts[i].after) *end++ = parts[i].id;
  return static_cast<size_t>(end - ids);
}

}  // namespace sluice

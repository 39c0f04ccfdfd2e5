// TokenMask: follows an answer through a grammar, and tells which tokens may come next.
//
// A mask is exact: a token is allowed when its bytes lead on in the grammar, and forbidden otherwise. The trie of the
// vocabulary is walked through the automaton; a branch that the grammar does not take is skipped, and so is one behind
// which any plain text may come, such as the rest of a member's name that is none of the known ones. Masks are kept by
// the automaton's state. Not thread safe: each answer has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/grammar/automaton.h"
#include "text/grammar/markers.h"
#include "text/grammar/token_trie.h"

namespace sluice {

inline constexpr size_t kMaskBytes = 32u << 20;

class TokenMask {
 public:
  // `ends`: the tokens that end an answer. They are allowed where the grammar can end. `markers`: tokens that the
  // grammar reads as such, and that are never text. `room`: the bytes of masks and states that are kept between two
  // calls, about; half for either.
  TokenMask(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie, std::vector<int32_t> ends,
            std::vector<TokenMarker> markers = {}, size_t room = kMaskBytes);

  // The tokens that may come next; good until the next call. Fails if the grammar is too ambiguous to follow, or if no
  // token of the vocabulary can go on.
  Result<std::span<const uint32_t>> allowed();
  // The only token that allowed() has; none: there are several, or it fails.
  std::optional<int32_t> only();
  // Takes a token that allowed() has; one that ends the answer changes nothing. False: the grammar does not allow it.
  bool accept(int32_t token, std::string_view bytes);
  void restart() { state_ = automaton_.start(); }  // at the grammar's beginning
  bool can_end() const { return automaton_.can_end(state_); }

 private:
  TokenBits compute();
  void walk(std::span<const TokenTrie::Node> nodes, TokenBits& bits);
  // The state behind every plain character, if it is the same one; kDead if none goes on; else none.
  std::optional<Automaton::State> behind_plain(Automaton::State state);
  std::optional<Automaton::State> find_behind_plain(Automaton::State state);
  // Adds the plain tokens by their numbers of characters. False if the tree has to be walked.
  bool add_plain(TokenBits& bits);
  void walk_plain(TokenBits& bits);
  bool mostly_free();
  bool is_free(Automaton::State state, uint8_t byte);
  bool is_free_behind(Automaton::State state, size_t character);

  Automaton automaton_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<int32_t> ends_;
  std::vector<TokenMarker> markers_;
  size_t room_;  // for either
  Automaton::State state_;
  struct Mask {
    TokenBits bits;
    std::optional<int32_t> only;  // if it is the only one
  };
  Result<const Mask*> mask();
  void forget_beyond_room();

  std::unordered_map<Automaton::State, Mask> masks_;
  std::unordered_map<Automaton::State, std::optional<Automaton::State>> behind_plain_;
  std::unordered_map<uint64_t, bool> free_behind_;  // by state and row of the table of characters
  std::vector<Automaton::State> path_;              // of walk(), by depth
};

}  // namespace sluice

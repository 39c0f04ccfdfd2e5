// grammar_masks VOCABULARY FOLDER [SLOWEST]: how long the masks of structured output take. VOCABULARY has a token a
// line, its bytes in base64. FOLDER has files of MaskBench (JSONSchemaBench): {"schema": ..., "tests": [{"data": ...,
// "valid": ...}]}. Each schema is compiled, and each valid instance is followed token by token as far as it is allowed.
// Prints the time to the first mask, which includes compiling, and that of the masks behind it; then so many of the
// slowest masks, with the text before them. Times are the thread's own, without waiting for a processor. An invalid
// instance that a grammar accepts is named; there should be none.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "text/grammar/grammar_source.h"
#include "text/grammar/token_mask.h"
#include "text/vocabulary.h"

namespace sluice {
namespace {

constexpr uint64_t kMostFileBytes = 64u << 20;

std::string from_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0, held = 0;
  for (const char c : text) {
    const size_t value = std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(c);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((held += 6) < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xff);
  }
  return bytes;
}

// In GPT-2's alphabet, in which a vocabulary of that kind writes bytes.
std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    const bool is_plain = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    uint32_t code = byte;
    if (!is_plain) code = byte <= 0x20 ? 0x100 + byte : byte < 0xa1 ? 0x121 + byte - 0x7f : 0x143;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xc0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return text;
}

Result<Tokenizer> read_tokens(const std::string& path) {
  TRY(const std::string file, read_file(path, kMostFileBytes));
  GgufVocabulary gguf;
  gguf.model = "gpt2";
  gguf.pre = "gpt-2";
  for (const std::string& line : split(file, '\n'))
    if (!line.empty()) gguf.tokens.push_back(in_alphabet(from_base64(line)));
  gguf.tokens.emplace_back("<end>");
  gguf.token_type.assign(gguf.tokens.size(), 1);
  gguf.token_type.back() = 3;
  gguf.eos_token_id = static_cast<int32_t>(gguf.tokens.size() - 1);
  TRY(Vocabulary vocabulary, vocabulary_from_gguf(std::move(gguf)));
  return Tokenizer(std::move(vocabulary));
}

struct Slow {
  double microseconds;
  std::string where;
};
struct Times {
  std::vector<double> first, later;
  std::vector<Slow> slow;
  size_t schemas = 0, refused = 0, instances = 0, followed = 0, invalid = 0, wrong = 0, passed = 0;
};

class Follower {
 public:
  Follower(const Tokenizer& tokenizer, Times& times)
      : tokenizer_(tokenizer), trie_(std::make_shared<const TokenTrie>(tokenizer)), times_(times) {}

  void follow(const std::string& name, const Json& file) {
    const Json *schema = file.find("schema"), *tests = file.find("tests");
    if (schema == nullptr || tests == nullptr) return;
    ++times_.schemas;
    const double begun = now();
    const auto grammar = compile_grammar({.kind = GrammarSource::Kind::json_schema, .schema = *schema});
    if (!grammar) {
      ++times_.refused;
      return;
    }
    TokenMask first(*grammar, trie_, {tokenizer_.size() - 1});
    static_cast<void>(first.allowed());
    times_.first.push_back(now() - begun);
    const size_t unfollowed = times_.instances - times_.followed, wrong = times_.wrong;
    for (const Json& test : tests->as_array())
      if (test.find("valid")->as_bool())
        follow_instance(name, *grammar, write_json(*test.find("data")));
      else
        check_invalid(name, *grammar, write_json(*test.find("data")));
    if (times_.instances - times_.followed == unfollowed && times_.wrong == wrong) ++times_.passed;
  }

 private:
  // Microseconds that this thread has computed.
  static double now() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  }

  // The longest token that the text goes on with.
  int32_t next_token(std::string_view text) const {
    for (size_t bytes = std::min<size_t>(text.size(), 24); bytes > 0; --bytes)
      if (const auto token = tokenizer_.find(in_alphabet(text.substr(0, bytes)))) return *token;
    return -1;
  }

  void follow_instance(const std::string& name, const std::shared_ptr<const Grammar>& grammar,
                       const std::string& text) {
    ++times_.instances;
    TokenMask mask(grammar, trie_, {tokenizer_.size() - 1});
    static_cast<void>(mask.allowed());
    size_t at = 0;
    while (at < text.size()) {
      const int32_t token = next_token(std::string_view(text).substr(at));
      if (token < 0 || !mask.accept(token, tokenizer_.bytes(token))) return;
      at += tokenizer_.bytes(token).size();
      const double begun = now();
      if (!mask.allowed()) return;
      const double took = now() - begun;
      times_.later.push_back(took);
      times_.slow.push_back({took, name + ": " + text.substr(at < 60 ? 0 : at - 60, std::min<size_t>(at, 60))});
      if (times_.slow.size() < 4000) continue;
      keep_slowest(100);
    }
    ++times_.followed;
  }

  void check_invalid(const std::string& name, const std::shared_ptr<const Grammar>& grammar, const std::string& text) {
    ++times_.invalid;
    Automaton automaton(grammar, kMaskBytes);
    Automaton::State end = automaton.start();
    bool forgot = false;
    for (const char byte : text) end = automaton.next(automaton.renew(end, &forgot), static_cast<uint8_t>(byte));
    if (!automaton.can_end(end)) return;
    ++times_.wrong;
    std::printf("accepted, and invalid: %s: %s\n", name.c_str(), text.substr(0, 200).c_str());
  }

  void keep_slowest(size_t count) {
    std::ranges::sort(times_.slow, std::greater(), &Slow::microseconds);
    times_.slow.resize(std::min(count, times_.slow.size()));
  }

  const Tokenizer& tokenizer_;
  std::shared_ptr<const TokenTrie> trie_;
  Times& times_;
};

void print(const char* what, std::vector<double> times) {
  std::ranges::sort(times);
  const auto at = [&](double part) {
    return times.empty() ? 0.0 : times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))];
  };
  std::printf("%-11s %8zu  median %9.1f us  p95 %9.1f us  p99 %9.1f us  p99.9 %9.1f us  most %9.1f us\n", what,
              times.size(), at(0.5), at(0.95), at(0.99), at(0.999), at(1));
}

int run(const std::string& vocabulary, const std::string& folder, size_t slowest) {
  Result<Tokenizer> tokenizer = read_tokens(vocabulary);
  if (!tokenizer) {
    std::fprintf(stderr, "grammar_masks: %s\n", tokenizer.error().text.c_str());
    return 1;
  }
  Times times;
  Follower follower(*tokenizer, times);
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    const Result<std::string> text = read_file(path, kMostFileBytes);
    const Result<Json> json = text ? parse_json(*text, path) : Result<Json>(text.error());
    if (json) follower.follow(path.substr(path.rfind('/') + 1), *json);
  }
  std::printf("%d tokens, %zu schemas, %zu refused, %zu valid instances, %zu followed to their end\n",
              tokenizer->size(), times.schemas, times.refused, times.instances, times.followed);
  std::printf("%zu invalid instances, %zu accepted; %zu schemas passed with all of theirs\n", times.invalid,
              times.wrong, times.passed);
  print("first mask", times.first);
  print("mask", times.later);
  std::ranges::sort(times.slow, std::greater(), &Slow::microseconds);
  for (size_t i = 0; i < std::min(slowest, times.slow.size()); ++i)
    std::printf("%9.1f us  %s\n", times.slow[i].microseconds, times.slow[i].where.c_str());
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: grammar_masks VOCABULARY FOLDER [SLOWEST]\n");
    return 2;
  }
  return sluice::run(words[1], words[2], count > 3 ? std::strtoul(words[3], nullptr, 10) : 0);
}

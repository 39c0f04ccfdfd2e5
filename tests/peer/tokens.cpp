// peer_tokens LIBRARIES VOCABULARY TEXT [ROUNDS]: encodes TEXT, document by document, with the peer's library and with
// Sluice over the same vocabulary, in turns. The ids must be equal; says how fast both were, and the ratio of every
// round.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "chat/text_parts.h"
#include "checkpoint/checkpoint.h"
#include "tests/peer/library.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

constexpr size_t kDocument = 16384;  // bytes, up to the end of a line
constexpr uint64_t kMaxText = uint64_t{1} << 30;

class Peer {
 public:
  Peer(const std::string& folder, const std::string& vocabulary) : library_(folder + "/libllama.v0.5.0.so") {
    library_.get<void(void (*)(int, const char*, void*), void*)>("llama_log_set")([](int, const char*, void*) {},
                                                                                  nullptr);
    peer::ModelParams params = library_.get<peer::ModelParams()>("llama_model_default_params")();
    params.vocab_only = true;
    void* model =
        library_.get<void*(const char*, peer::ModelParams)>("llama_model_load_from_file")(vocabulary.c_str(), params);
    vocabulary_ = model == nullptr ? nullptr : library_.get<const void*(const void*)>("llama_model_get_vocab")(model);
    tokenize_ = library_.get<Tokenize>("llama_tokenize");
  }
  bool ok() const { return vocabulary_ != nullptr; }
  std::vector<int32_t> encode(std::string_view text) const {
    std::vector<int32_t> ids(text.size() + 1);
    const int32_t count = tokenize_(vocabulary_, text.data(), static_cast<int32_t>(text.size()), ids.data(),
                                    static_cast<int32_t>(ids.size()), false, true);
    ids.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return ids;
  }

 private:
  using Tokenize = int32_t(const void*, const char*, int32_t, int32_t*, int32_t, bool, bool);
  peer::Library library_;
  const void* vocabulary_ = nullptr;
  Tokenize* tokenize_ = nullptr;
};

std::vector<std::string_view> documents_of(std::string_view text) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const size_t line = text.find('\n', std::min(text.size(), kDocument));
    const size_t bytes = line == std::string_view::npos ? text.size() : line + 1;
    documents.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return documents;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void show_difference(size_t document, std::string_view text, const std::vector<int32_t>& found,
                     const std::vector<int32_t>& want, const Tokenizer& tokenizer) {
  const auto parted = std::mismatch(found.begin(), found.end(), want.begin(), want.end());
  const auto at = static_cast<size_t>(parted.first - found.begin());
  size_t byte = 0;
  for (size_t i = 0; i < at; ++i) byte += tokenizer.bytes(found[i]).size();
  std::printf("document %zu, id %zu, near %s: found %d: want %d\n", document, at,
              printable(text.substr(std::min(byte, text.size()), 40)).c_str(), at < found.size() ? found[at] : -1,
              at < want.size() ? want[at] : -1);
}

int run(const std::string& folder, const std::string& vocabulary, const std::string& file, int rounds) {
  auto checkpoint = open_checkpoint(vocabulary);
  auto read = checkpoint ? read_vocabulary(*checkpoint) : Result<Vocabulary>(checkpoint.error());
  auto text = read_file(file, kMaxText);
  if (!read || !text) {
    std::fprintf(stderr, "%s\n", (!read ? read.error() : text.error()).text.c_str());
    return 1;
  }
  const Tokenizer tokenizer(*std::move(read));
  const Peer peer(folder, vocabulary);
  if (!peer.ok()) {
    std::fprintf(stderr, "%s: the peer cannot load it\n", vocabulary.c_str());
    return 1;
  }
  const std::vector<std::string_view> documents = documents_of(*text);
  size_t ids = 0;
  size_t differing = 0;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    double ours = 0;
    double theirs = 0;
    for (size_t i = 0; i < documents.size(); ++i) {
      std::vector<int32_t> found;
      std::vector<int32_t> want;
      for (size_t turn = 0; turn < 2; ++turn) {
        const auto begin = std::chrono::steady_clock::now();
        const bool sluice = (turn + i) % 2 == 0;
        (sluice ? found : want) = sluice ? tokenizer.encode(documents[i]) : peer.encode(documents[i]);
        (sluice ? ours : theirs) += seconds_since(begin);
      }
      if (round > 0) continue;
      ids += want.size();
      if (found == want) continue;
      if (differing++ < 5) show_difference(i, documents[i], found, want, tokenizer);
    }
    ratios.push_back(theirs / ours);
    const double megabytes = static_cast<double>(text->size()) / 1e6;
    std::printf("round %d: Sluice %.2f MB/s, the peer %.2f MB/s: %.2f times as fast\n", round + 1, megabytes / ours,
                megabytes / theirs, ratios.back());
  }
  std::printf("tokens: %zu bytes in %zu documents, %zu ids, %zu documents differ\n", text->size(), documents.size(),
              ids, differing);
  return ids == 0 || differing > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr, "peer_tokens LIBRARIES VOCABULARY TEXT [ROUNDS]\n");
    return 2;
  }
  return sluice::run(argv[1], argv[2], argv[3], argc == 5 ? std::max(1, std::atoi(argv[4])) : 1);
}

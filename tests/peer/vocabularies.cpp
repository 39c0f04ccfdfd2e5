// peer_vocabularies MODELS: the vocabularies in a source tree of llama.cpp (MODELS is its models/ folder), each with
// texts
// (.inp, separated by a line) and the ids llama.cpp gives them (.out, a line a text): Sluice's must be the same.
#include <cstdio>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/limits.h"
#include "chat/text_parts.h"
#include "checkpoint/checkpoint.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

constexpr const char* kNames[] = {"gemma-4",   "qwen35", "qwen2",     "deepseek-llm", "deepseek-coder",
                                  "llama-bpe", "gpt-2",  "falcon",    "command-r",    "starcoder",
                                  "refact",    "mpt",    "llama-spm", "phi-3"};

std::vector<std::string> pieces_of(const std::string& text, const std::string& separator) {
  std::vector<std::string> pieces;
  size_t at = 0;
  for (size_t end; (end = text.find(separator, at)) != std::string::npos; at = end + separator.size())
    pieces.push_back(text.substr(at, end - at));
  pieces.push_back(text.substr(at));
  return pieces;
}

std::string written(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += cat(' ', id);
  return out;
}

// How many texts of the vocabulary differ.
Result<size_t> differing(const std::string& file) {
  TRY(const Checkpoint checkpoint, open_checkpoint(file));
  TRY(Vocabulary vocabulary, read_vocabulary(checkpoint));
  const Tokenizer tokenizer(std::move(vocabulary));
  TRY(const std::string texts, read_file(file + ".inp", kMaxDocumentBytes));
  TRY(const std::string ids, read_file(file + ".out", kMaxDocumentBytes));
  std::vector<std::string> inputs = pieces_of(texts, "\n__ggml_vocab_test__\n");
  std::vector<std::string> wanted = pieces_of(ids, "\n");
  for (auto* list : {&inputs, &wanted})
    if (list->back().empty()) list->pop_back();
  if (inputs.size() != wanted.size() || inputs.size() < 10) {
    return error(ErrorKind::corrupt, file, ": ", inputs.size(), " texts and ", wanted.size(),
                 " lines of ids: want one each");
  }
  size_t wrong = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string found = written(tokenizer.encode(inputs[i], {.parse_special = false}));
    const bool spaced = wanted[i].empty() || wanted[i][0] == ' ';
    if (found == (spaced ? wanted[i] : " " + wanted[i])) continue;
    ++wrong;
    std::printf("%s: text %zu (%s): found%s: want%s\n", file.c_str(), i, printable(inputs[i]).c_str(), found.c_str(),
                wanted[i].c_str());
  }
  return wrong;
}

int run(const std::string& folder) {
  int failed = 0;
  for (const char* name : kNames) {
    const Result<size_t> wrong = differing(folder + "/ggml-vocab-" + name + ".gguf");
    if (!wrong) std::printf("%s\n", wrong.error().text.c_str());
    failed += !wrong || *wrong > 0 ? 1 : 0;
  }
  std::printf("vocabularies: %zu compared, %d differ\n", std::size(kNames), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "peer_vocabularies MODELS\n");
    return 2;
  }
  return sluice::run(argv[1]);
}

// Puts gemma4_moe-bf16.gguf together again, the file that llama.cpp's converter wrote from tests/data/gemma4_moe, so
// that the tree does not hold the same weights twice:
//
//   restore_gguf tests/data tests/data/peer/gemma4_moe-bf16.gguf
//
//   .head      its bytes up to the data
//   .tensors   a line a tensor, in order: "same NAME" as model.safetensors has it, "wide NAME" its bf16 as f32, or
//              "words" and the tensor itself in hexadecimal; each begins at a multiple of 32 bytes
#include <cstdio>
#include <cstdlib>
#include <span>

#include "base/files/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

namespace sluice {
namespace {

constexpr uint64_t kMostBytes = 1 << 24;
constexpr size_t kAlignment = 32;
constexpr const char* kDigest = "b0f236ee94f4133c4edf89b5ae745b7cab77a1e6d9da42e0ee8464178e3a3c70";

int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

Result<std::string> tensor_bytes(const Checkpoint& model, std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return error(ErrorKind::corrupt, "a line has no space: ", printable(line));
  const std::string_view kind = line.substr(0, space), rest = line.substr(space + 1);
  std::string bytes;
  if (kind == "words") {
    std::string digits(rest);
    std::erase(digits, ' ');
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
      bytes.push_back(static_cast<char>(digit(digits[i]) << 4 | digit(digits[i + 1])));
    return bytes;
  }
  const StoredTensor* stored = model.find(std::string(rest));
  if (stored == nullptr) return error(ErrorKind::not_found, "no tensor ", printable(rest));
  const std::span<const std::byte> held = stored->bytes;
  const std::string_view own(reinterpret_cast<const char*>(held.data()), held.size());
  if (kind == "same") return std::string(own);
  for (size_t i = 0; i + 1 < own.size(); i += 2) {
    bytes.append(2, '\0');
    bytes.append(own.substr(i, 2));
  }
  return bytes;
}

Status restore(const std::string& data, const std::string& path) {
  const std::string stem = join_path(data, "peer/gemma4_moe-bf16");
  TRY(const Checkpoint model, open_checkpoint(join_path(data, "gemma4_moe")));
  TRY(std::string file, read_file(stem + ".head", kMostBytes));
  TRY(const std::string lines, read_file(stem + ".tensors", kMostBytes));
  for (const std::string& line : split(lines, '\n')) {
    if (line.empty()) continue;
    TRY(const std::string bytes, tensor_bytes(model, line));
    file.append(bytes);
    file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  Sha256 sha;
  sha.add(file);
  const std::string found = sha.finish_hex();
  if (found != kDigest) return error(ErrorKind::corrupt, path, ": digest is ", found, ": want ", kDigest);
  return write_file(path, file);
}

}  // namespace
}  // namespace sluice

int main(int count, char** words) {
  if (count != 3) {
    std::fputs("usage: restore_gguf DATA FILE\n", stderr);
    return 2;
  }
  const sluice::Status done = sluice::restore(words[1], words[2]);
  if (done) return EXIT_SUCCESS;
  std::fprintf(stderr, "restore_gguf: %s\n", done.error().text.c_str());
  return EXIT_FAILURE;
}

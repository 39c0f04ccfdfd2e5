// Manifests of Ollama's store and names of models from any bytes: a digest is always 64 hexadecimal digits, and no name
// leads out of its folder.
#include <algorithm>

#include "base/check.h"
#include "checkpoint/places/hub_cache.h"
#include "checkpoint/places/ollama_manifest.h"
#include "checkpoint/places/ollama_name.h"
#include "checkpoint/split_gguf.h"

namespace {

void check_digest(const sluice::OllamaBlob& blob) {
  CHECK(blob.hex.size() == 64 && blob.hex.find_first_not_of("0123456789abcdef") == std::string::npos);
}

void check_inside(const std::string& path) {
  for (const std::string& part : sluice::split(path, '/'))
    CHECK(!part.empty() && part.front() != '.' && part.find('\0') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto manifest = parse_ollama_manifest(text, "manifest")) {
    std::ranges::for_each(manifest->layers, check_digest);
    std::ranges::for_each(manifest->manifests, check_digest);
    if (manifest->config) check_digest(*manifest->config);
  }
  if (const auto name = parse_ollama_name(text)) {
    check_inside(name->path());
    CHECK(parse_ollama_name(name->text())->path() == name->path());
  }
  if (const auto name = parse_repository_name(text)) {
    check_inside(name->text());
    if (!name->wanted.empty()) check_inside(name->wanted);
  }
  if (const auto name = parse_split_name(text)) CHECK(name->path() == text && name->number <= name->count);
  return 0;
}

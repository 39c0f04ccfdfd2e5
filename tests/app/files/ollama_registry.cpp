#include "tests/app/files/ollama_registry.h"

#include <cstdlib>

#include "base/files/file.h"
#include "base/sha256.h"
#include "base/text.h"

namespace sluice {

std::string OllamaRegistry::hex_of(std::string_view content) {
  Sha256 sum;
  sum.add(content);
  return sum.finish_hex();
}

OllamaRegistry::OllamaRegistry()
    : model_(*read_file(SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf", 1 << 24)),
      server_([this](const LocalRequest& asked) { return answer(asked); }) {
  setenv("no_proxy", "127.0.0.1", 1);
}

LocalReply OllamaRegistry::answer(const LocalRequest& asked) {
  const auto found = served_.find(asked.path);
  if (found == served_.end()) return {404, {}, ""};
  LocalReply reply = file_reply(asked, found->second, '"' + hex_of(found->second) + '"');
  const auto cut = cut_.find(asked.path);
  if (cut != cut_.end()) {
    reply.sent_bytes = cut->second;
    reply.stalls = stalls_;
    cut_.erase(cut);
  }
  return reply;
}

std::string OllamaRegistry::blob_url_path(std::string_view content) {
  return cat(base(), "/blobs/sha256:", hex_of(content));
}

std::string OllamaRegistry::entry(std::string_view kind, std::string_view content) {
  served_[blob_url_path(content)] = content;
  return cat(R"({"mediaType":"application/vnd.ollama.image.)", kind, R"(","digest":"sha256:)", hex_of(content),
             R"(","size":)", content.size(), "}");
}

std::string OllamaRegistry::whole_manifest(std::string_view system) {
  return cat(R"({"schemaVersion":2,"config":)", entry("config", R"({"model_family":"gemma4"})"), R"(,"layers":[)",
             entry("model", model_), ',', entry("system", system), ',', entry("license", "free"), "]}");
}

void OllamaRegistry::serve_manifest(const std::string& text, const std::string& tag) {
  served_[cat(base(), "/manifests/", tag)] = text;
}

}  // namespace sluice

// A registry of Ollama's form on the loopback: what lies under which path of /v2/library/tiny.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tests/app/files/http_server.h"

namespace sluice {

class OllamaRegistry {
 public:
  OllamaRegistry();

  static std::string hex_of(std::string_view content);  // its SHA-256
  static std::string base() { return "/v2/library/tiny"; }
  static std::string blob_url_path(std::string_view content);
  // An entry of a manifest, whose blob is served from now on.
  std::string entry(std::string_view kind, std::string_view content);
  // Of a small model of Gemma 4 with a system message.
  std::string whole_manifest(std::string_view system = "Be brief.");
  void serve_manifest(const std::string& text, const std::string& tag = "e2b");

  std::map<std::string, std::string> served_;
  std::map<std::string, size_t> cut_;  // paths whose next reply stops after so many bytes
  bool stalls_ = false;                // then keeps the connection open
  const std::string model_;
  LocalServer server_;

 private:
  LocalReply answer(const LocalRequest& asked);
};

}  // namespace sluice

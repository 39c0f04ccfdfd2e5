// Names of models in Ollama's store: "gemma4:e2b", "namespace/model:tag", "host/namespace/model:tag", where host,
// namespace and tag have defaults. Source: types/model/name.go of Ollama.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::string_view kOllamaTag = "latest";  // when none is given

// A part begins with a letter, digit or '_' and goes on with these and "-.". A host may have ':' too. No part can point
// outside its folder.
struct OllamaName {
  std::string host, name_space, model, tag;

  std::string text() const;  // the shortest name that reads back: "gemma4:e2b"
  std::string path() const;  // below manifests/: "registry.ollama.ai/library/gemma4/e2b"
  bool on_default_host() const;
};

// None when `text` cannot be such a name.
std::optional<OllamaName> parse_ollama_name(std::string_view text);
// None when a part has other characters.
std::optional<OllamaName> make_ollama_name(std::string_view host, std::string_view name_space, std::string_view model,
                                           std::string_view tag);

}  // namespace sluice

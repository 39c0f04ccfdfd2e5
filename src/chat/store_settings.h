// Settings that a store keeps beside a model's weights, and with which `sluice run` begins: Ollama's params, system and
// messages layers. Its template layer is in Go's language, not Jinja, and is never rendered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"
#include "checkpoint/model_files.h"
#include "engine/sampling.h"

namespace sluice {

struct StoreSettings {
  SamplingSettings sampling;
  std::vector<std::string> stops;
  std::optional<uint32_t> context, max_tokens;  // num_ctx, num_predict
  std::string system;
  std::vector<ChatMessage> messages;
  std::vector<std::string> unused;  // params that set nothing here
};

// The params change `sampling`. A param or message of a wrong kind is an error.
Result<StoreSettings> read_store_settings(const ModelFiles& files, uint32_t vocabulary, SamplingSettings sampling);
// One line that says that the store's template is not used; "" if it has none. `used` names the template in use.
std::string go_template_note(const ModelFiles& files, const std::string& used);

}  // namespace sluice

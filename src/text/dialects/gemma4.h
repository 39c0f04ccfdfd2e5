// The chat template for Gemma 4 files without one. Written for Sluice after the published conventions: turns
// <|turn>role\n...<turn|>\n; thoughts of earlier answers left out; tools and calls in Gemma's notation (keys sorted,
// strings between <|"|>); after a tool's response the model's answer goes on in the same turn.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// The weight that only models with per-layer embeddings have.
inline constexpr std::string_view kGemma4PerLayerEmbeddings = "per_layer_embed";

// `empty_thought`: for an answer without thinking, the prompt ends with an empty, closed thought. The models without
// per-layer embeddings (26B and 31B) were trained that way, the small models were not.
std::string gemma4_chat_template(bool empty_thought);

}  // namespace sluice

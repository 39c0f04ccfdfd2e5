// The chat template for Gemma 4 files without one. The text is our own, the conventions are published: turns
// <|turn>role\n...<turn|>\n; thoughts of earlier answers left out; tools and calls in Gemma's notation (keys sorted,
// strings between <|"|>); after a tool's response the model's answer goes on in the same turn.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// The weight that a model has where its layers have embeddings of their own.
inline constexpr std::string_view kGemma4PerLayerEmbeddings = "per_layer_embed";

// `empty_thought`: for an answer without thinking, the prompt ends with an empty, closed thought. The 26B and 31B
// models (those without per-layer embeddings) were trained that way; the small ones were not.
std::string gemma4_chat_template(bool empty_thought);

}  // namespace sluice

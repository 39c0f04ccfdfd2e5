// The chat template for Gemma 4 files that come without one. Own text, the conventions of the published templates:
// turns <|turn>role\n...<turn|>\n, thoughts of earlier answers left out, tools and calls in Gemma's notation (keys
// sorted, strings between <|"|>), a model's answer after a tool's response going on in the same turn.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// The weight that a model has where its layers have embeddings of their own.
inline constexpr std::string_view kGemma4PerLayerEmbeddings = "per_layer_embed";

// `empty_thought`: where the answer is to come without thinking, the prompt ends with a thought already closed, as the
// 26B and 31B models (those without per-layer embeddings) were trained; the small ones were not.
std::string gemma4_chat_template(bool empty_thought);

}  // namespace sluice

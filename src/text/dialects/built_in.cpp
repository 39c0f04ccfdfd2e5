#include "text/dialects/built_in.h"

#include "text/dialects/deepseek_v3.h"
#include "text/dialects/gemma4.h"
#include "text/dialects/qwen3_5.h"

namespace sluice {

std::optional<BuiltInTemplate> built_in_template(const Tokenizer& tokenizer,
                                                 const std::function<bool(std::string_view)>& has_weight) {
  const auto has = [&](std::string_view token) { return tokenizer.find(token).has_value(); };
  if (has("<|turn>") && has("<turn|>"))
    return BuiltInTemplate{"gemma4", gemma4_chat_template(!has_weight(kGemma4PerLayerEmbeddings))};
  if (has("<|im_start|>") && has("<|im_end|>"))
    return BuiltInTemplate{"qwen3_5", qwen3_5_chat_template(has("<think>"))};
  if (has("<｜User｜>") && has("<｜Assistant｜>")) return BuiltInTemplate{"deepseek_v3", deepseek_v3_chat_template()};
  return std::nullopt;
}

}  // namespace sluice

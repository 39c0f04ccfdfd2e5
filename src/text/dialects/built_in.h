// Chat templates for files without one, one for each family. The texts were written for Sluice; the conventions are
// those of the published templates.
//
//   gemma4       <|turn>role\n...<turn|>\n, thoughts of earlier answers left out (gemma4.h)
//   qwen3_5      <|im_start|>role\n...<|im_end|>\n, thoughts kept after the last question only (qwen3_5.h)
//   deepseek_v3  <｜User｜>...<｜Assistant｜>...<｜end▁of▁sentence｜>, the system's text first (deepseek_v3.h)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace sluice {

struct BuiltInTemplate {
  std::string_view family;  // the family whose conventions it follows
  std::string text;
};

// The template whose turn markers are in the vocabulary, if any. `has_weight` tells whether the model has a weight with
// that canonical name: some families have sizes that were trained with different conventions.
std::optional<BuiltInTemplate> built_in_template(const Tokenizer& tokenizer,
                                                 const std::function<bool(std::string_view)>& has_weight);

}  // namespace sluice

// What verify adds for chat cases: the model's own template and tokenizer must give the golden's text and ids.
#pragma once

#include "app/verify/golden.h"
#include "app/verify/verify_case.h"
#include "base/result.h"
#include "chat/text_parts.h"

namespace sluice {

// Adds to report.misses where text or ids differ; cases of other kinds are left as they are.
void check_chat(const TextParts& text, const GoldenCase& golden_case, CaseReport& report);

}  // namespace sluice

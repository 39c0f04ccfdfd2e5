// Verify's test of chat cases: the model's own template and tokenizer must give the golden's text and ids.
#pragma once

#include "app/verify/golden.h"
#include "app/verify/verify_case.h"
#include "base/result.h"
#include "chat/text_parts.h"

namespace sluice {

// Adds to report.misses if text or ids differ. Cases of other kinds are left alone.
void check_chat(const TextParts& text, const GoldenCase& golden_case, CaseReport& report);

}  // namespace sluice

// An answer that the client has begun: a last message of the assistant (a prefill). The prompt is that of the messages
// before it, up to where an answer begins, and the text follows. The reply has only what the model adds.
#pragma once

#include <string_view>

#include "serve/answer_request.h"
#include "serve/refusal.h"

namespace sluice {

// Takes a last message of the assistant out of the request's messages as its prefill. Does nothing when another role is
// last. Called when form and thinking are known. Refused: a message with calls or a thought, whose end nobody knows,
// and a form beside a prefill, which would hold for the model's part alone. A prefill leaves no place for a thought:
// thinking that was asked for by `thinking_field` is ignored, and the field is named.
Checked take_prefill(AnswerRequest& request, std::string_view thinking_field);

}  // namespace sluice

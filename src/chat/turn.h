// A turn of a conversation as a stream of events: pieces of text and of thinking while they are generated, calls of
// tools when they are complete, then the end with its counts. Pieces are whole characters, without the markers of
// thinking, and cut at a stop string.
//
// Calls are looked for only where the prompt has tools (ChatPrompt). What cannot be read as a call comes as text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/answer_constraint.h"
#include "engine/options.h"
#include "engine/sampling.h"
#include "text/dialects/tool_syntax.h"

namespace sluice {

// Of which tokens a turn tells how likely they were.
enum class LogProbs : uint8_t {
  none,
  answer,  // those of the answer's text, without thoughts and calls
  text,    // those of thoughts, too
};

struct TurnSettings {
  SamplingSettings sampling;
  uint32_t max_tokens = 0;                            // of the answer; 0: what the context leaves
  AdapterSum adapters = {};                           // that Engine::check_adapters() lets pass
  std::vector<std::string> stops = {};                // strings that end the answer, and are no part of it
  uint32_t choice = 0;                                // as Request::choice
  std::shared_ptr<const AnswerGrammar> grammar = {};  // that the answer keeps to, behind its thought; null: none
  std::optional<uint32_t> thought_budget = {};        // tokens that it may think for; none: any number
  LogProbs log_probs = LogProbs::none;                // with sampling.candidates of the likeliest tokens
  uint32_t max_calls = 0;                             // of tools; the last one ends the answer; 0: any number
  std::string context_hint = {};  // how a person makes room: ends the sentence about a conversation that is too long
};

enum class TurnEnd : uint8_t {
  stop,       // a stop string, a token that ends answers, or the last call of TurnSettings::max_calls
  length,     // max_tokens, or the end of the context
  cancelled,  // by the caller
};

// Tokens and seconds; for a running turn, those so far.
struct Usage {
  uint32_t prompt_tokens = 0;                               // of the whole conversation that the answer goes on from
  uint32_t reused_tokens = 0;                               // of those, computed for an earlier turn
  uint32_t restored_tokens = 0;                             // of those, read from the state store
  uint32_t computed_tokens = 0;                             // of the prompt, computed for this turn
  uint32_t answer_tokens = 0;                               // generated, thinking and the end token included
  uint32_t thinking_tokens = 0;                             // of those, within thoughts, markers included
  uint32_t drafted = 0, accepted = 0, undrafted_steps = 0;  // as Progress has them
  double prompt_seconds = 0;                                // to the first token, or to the end if none came
  double answer_seconds = 0;                                // from the first token to the last
};

struct TextEvent {
  std::string text;
  bool operator==(const TextEvent&) const = default;
};
struct ThinkingEvent {
  std::string text;
  bool operator==(const ThinkingEvent&) const = default;
};
struct ToolCallEvent {
  ToolCall call;
};
// A token and how likely it was, by the logits before all settings of sampling.
struct TokenLogProb {
  std::string bytes;  // of its text; perhaps a part of a character
  float log_prob = 0;
  std::vector<std::pair<std::string, float>> top = {};  // the likeliest tokens at its place, the likeliest first
};
// Comes before the text that its token is shown with. Text may be held back, so the text of several may come together.
struct LogProbEvent {
  TokenLogProb token;
};
struct DoneEvent {
  TurnEnd end{};
  Usage usage;
  std::optional<size_t> stop = {};  // the index of the stop string that ended the answer
};
using TurnEvent = std::variant<TextEvent, ThinkingEvent, ToolCallEvent, LogProbEvent, DoneEvent>;

}  // namespace sluice

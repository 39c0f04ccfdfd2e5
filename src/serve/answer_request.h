// AnswerRequest: what a request of any API asks of the model, once its body is read and checked. Reading is pure: it
// needs no engine, so tests and fuzz targets call it directly. prepare() renders and encodes it, which a thread of the
// pool does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "chat/turn.h"
#include "serve/answer_queue.h"
#include "serve/answer_writer.h"
#include "serve/keep_alive.h"
#include "serve/media_fields.h"
#include "serve/refusal.h"
#include "serve/request_memory.h"
#include "serve/served_model.h"

namespace sluice {

// The most answers that one request may ask for.
inline constexpr uint32_t kMostParts = 128;
inline constexpr size_t kMostStops = 16;
inline constexpr int64_t kMostThought = 1'000'000'000;  // tokens of a thought
inline constexpr int32_t kMostPriority = 1'000'000;     // and the least, below 0

// A prompt that no template renders: text, or ids.
using PlainPrompt = std::variant<std::string, std::vector<int32_t>>;

// The form that a request asks of its answer. `param` is the field that asks for it.
struct AnswerForm {
  std::string param;
  GrammarSource source;
};

struct AnswerRequest {
  Json messages = {};                  // for the chat template; null: `plain` are the prompts
  std::vector<GivenMedia> media = {};  // that the messages show, in their order
  // Of the memory that reading takes, and the tower inputs in jobs. By default it counts nothing.
  std::shared_ptr<MemoryLease> lease = std::make_shared<MemoryLease>();
  Json variables = {};       // of the template, an object or null; "tools" among them
  std::string prefill = {};  // the beginning of the answer, given by the client (prefill.h)
  std::vector<PlainPrompt> plain = {};
  TurnSettings settings = {};
  std::optional<AnswerForm> form = {};
  bool must_call = false;                    // one of the tools, before anything else
  std::vector<std::string> only_tools = {};  // that may be called; empty: all
  uint32_t choices = 1;                      // to each prompt
  uint32_t context = 0;                      // a bound on prompt and answer together, below the engine's; 0: none
  int32_t priority = 0;                      // among the waiting requests of its key; lower ones run earlier
  bool stream = false;
  std::optional<KeepAlive> keep_alive = {};  // of the model, after the answer
  std::vector<std::string> ignored = {};     // fields that had no effect
  std::string model = {};                    // as the request names it
  std::unique_ptr<AnswerWriter> writer = {};
};

// The jobs, choices of a prompt beside each other; none for a request without a prompt. A prompt that leaves no room
// for an answer is refused with the code "context_length_exceeded".
Outcome<std::vector<AnswerJob>> prepare(const AnswerRequest& request, const ServedModel& model,
                                        RemoteMedia remote = {});

}  // namespace sluice

// Examples to train on, from JSON Lines: an object a line, of one of three forms, or a question and its answer.
//
//   {"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}, ...], "tools": [...]}
//   {"prompt": "...", "completion": "..."}     by the chat template too, if there is one: a question and its answer
//   {"text": "..."}                            as it is
//   question => answer                         a prompt and its completion, without JSON
//
// Pairs of answers, of which the first is preferred, have other members:
//
//   {"prompt": ..., "chosen": ..., "rejected": ...}     each a string, or a list of messages
//   {"messages": [...], "chosen": ..., "rejected": ...} likewise; the messages are the prompt
//   {"chosen": [...], "rejected": [...]}                two whole conversations
//
// A message's content may be a list of parts, some of which show a picture, a sound or a film: as OpenAI's API has them
// (image_url, input_audio), or {"type": "image", "image": "cat.png"}, likewise audio and video. A part that names
// nothing shows the next of the line's "images", "audios" or "videos". They are named by a path or a data: URL.
//
// Tokens of answers are targets, and the token that ends a turn; with `all`, every token is. Of plain text all tokens
// are. A conversation's answers are told apart by rendering it up to each of them, and each is learnt behind the prompt
// that asks for it. A conversation is one sequence, or several where the template changes turns that have been.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/media_parts.h"
#include "chat/media_source.h"
#include "chat/text_parts.h"
#include "train/training_step.h"

namespace sluice {

struct TrainingDataOptions {
  bool all = false;         // all tokens are targets
  uint32_t max_tokens = 0;  // of an example; longer ones are faults
  bool pairs = false;       // two sequences a line, that of the chosen answer first
  // Prepares what an example names: one element, or all steps of a film. Null: examples of text alone.
  std::function<Result<std::vector<PreparedMedia>>(MediaKind kind, const std::string& named)> open_media = {};
};

struct TrainingData {
  std::vector<TrainSequence> examples;
  std::vector<size_t> lines;        // of each sequence, from 1
  std::vector<std::string> faults;  // "line 3: ...", of lines that were left out
};

// Empty lines are left out. The faults of lines are collected, not failures.
TrainingData read_training_data(std::string_view text, const TextParts& parts, const TrainingDataOptions& options);

}  // namespace sluice

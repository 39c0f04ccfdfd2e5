// A golden: numbers that another implementation computed for a model (golden.json and golden.safetensors beside it).
//
// {"format": 1, "model": ..., "cases": [{"name", "kind", "input_ids", "positions", "greedy", "greedy_margin",
// "perplexity", "float64_difference", "messages", "text", "template_kwargs", "tensors": {name: key}}, ...]}
// A draft case has "first_token", "draft_tokens" and "margins" in place of positions and greedy tokens; row j of its
// logits belongs to guess j. Row j of the tensor "logits" of other cases belongs to positions[j]. Greedy tokens go on
// from the whole prompt, and end-of-turn tokens do not stop them. docs/cli.md says how verify uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace sluice {

// The kind of cases with adapters.
inline constexpr std::string_view kAdapterKind = "lora";
inline constexpr std::string_view kTrainingKind = "train";
// Tokens that a draft model guesses behind a prompt.
inline constexpr std::string_view kDraftKind = "draft";

struct GoldenCase {
  std::string name;
  std::string kind;  // "text", "chat", "image" ...; those of reason_not_run() are only listed
  std::vector<int32_t> input_ids;
  std::vector<uint32_t> positions;   // ascending
  std::vector<int32_t> greedy;       // of a draft case the guesses
  int32_t first_token = 0;           // of a draft case: the token behind the prompt, from which the first guess is made
  std::vector<float> greedy_margin;  // best logit minus second best, of each greedy token
  std::optional<double> perplexity;
  double float64_difference = 0;
  Json training;  // of training cases: the whole case (training_golden.h), which has none of the numbers above
  Json messages;  // of chat cases
  Json template_kwargs;
  std::string text;
  std::vector<std::string> files;  // pictures, sounds, frames of a film, adapters; beside the golden
  std::vector<std::pair<std::string, std::string>> tensors;  // name, key
};

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<float> floats;      // of F32, and of F64 rounded
  std::vector<int32_t> integers;  // of I32
};

class Golden {
 public:
  static Result<Golden> open(const std::string& path);

  const std::string& model() const { return model_; }
  const std::string& folder() const { return folder_; }  // where it lies
  const std::vector<GoldenCase>& cases() const { return cases_; }
  // not_found when the case has no tensor of that name.
  Result<GoldenTensor> tensor(const GoldenCase& golden_case, const std::string& name) const;

 private:
  Golden(std::string model, std::string folder, std::vector<GoldenCase> cases, Checkpoint tensors)
      : model_(std::move(model)), folder_(std::move(folder)), cases_(std::move(cases)), tensors_(std::move(tensors)) {}

  std::string model_, folder_;
  std::vector<GoldenCase> cases_;
  Checkpoint tensors_;
};

// The reason why this build cannot compute cases of that kind; none if it can.
std::optional<std::string> reason_not_run(std::string_view kind);

}  // namespace sluice

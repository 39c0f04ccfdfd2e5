// Answers while a model is trained: questions that are asked at every evaluation, greedily, with the factors as they
// are. An engine of its own answers as `sluice run` would, on the same device and weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/open/open.h"
#include "base/json.h"
#include "base/result.h"
#include "chat/text_parts.h"
#include "model/adapters/adapter.h"

namespace sluice {

class Samples {
 public:
  // Takes the engine's memory, with room for an adapter of the shapes of `adapter`. All references outlive it. Factors
  // are handed over in `folder`, which exists only meanwhile.
  static Result<std::unique_ptr<Samples>> open(const Model& model, const TextParts& text, Machine& machine,
                                               const Arguments& arguments, const Adapter& adapter, std::string folder,
                                               Console& console);

  const std::vector<std::string>& questions() const { return questions_; }
  // An answer to each question.
  Result<std::vector<std::string>> answer(const Json& config, const std::vector<StoredFactor>& factors);

 private:
  Samples(const Model& model, const TextParts& text, std::vector<std::string> questions, std::string folder)
      : model_(&model), text_(&text), questions_(std::move(questions)), folder_(std::move(folder)) {}

  const Model* model_;
  const TextParts* text_;
  const std::vector<std::string> questions_;
  const std::string folder_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sluice

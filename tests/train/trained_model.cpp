#include "tests/train/trained_model.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "model/adapters/new_adapter.h"
#include "tests/unwrap.h"

namespace sluice {

double drawn(uint32_t kind, uint32_t i) { return philox4x32({i, kind, 0, 0}, {7, 7})[0] / 4294967296.0 - 0.5; }

TrainSequence drawn_sequence(const Model& model, uint32_t number, uint32_t tokens) {
  TrainSequence made;
  for (uint32_t i = 0; i < tokens; ++i) {
    made.tokens.push_back(static_cast<int32_t>((drawn(100 + number, i) + 0.5) * model.facts().vocabulary));
    made.is_target.push_back(i % 3 != 1 ? 1 : 0);
  }
  return made;
}

TrainedModel::TrainedModel(const std::string& folder)
    : folder_(testing::TempDir() + "/adapter"),
      model(unwrap(resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint(folder)))))) {
  NewAdapter made = unwrap(new_adapter(model, {.rank = 3, .alpha = 6}));
  uint32_t number = 0;
  for (StoredFactor& one : made.tensors) {
    ++number;
    for (uint32_t i = 0; i < one.numbers.size(); ++i) one.numbers[i] = static_cast<float>(0.2 * drawn(number, i));
  }
  unwrap(write_adapter(folder_, made.config, made.tensors));
  factors = unwrap(TrainedFactors::create(unwrap(Adapter::open(model, folder_)), model.weights(), pool, budget));
}

std::unique_ptr<TrainingStep> TrainedModel::step(Device& device, Arithmetic arithmetic, uint32_t kept_layers) {
  return unwrap(TrainingStep::create(model, *factors, device, budget,
                                     {.arithmetic = arithmetic,
                                      .size = {.rows = 3 * kTokens, .targets = 3 * kTokens, .sequences = 3},
                                      .kept_layers = kept_layers}));
}

std::vector<std::vector<float>> TrainedModel::gradients() const {
  return {factors->gradients().begin(), factors->gradients().end()};
}

double loss_of(TrainingStep& step, const std::vector<BatchPart>& batch) {
  double sum = 0;
  const BatchLoss loss = unwrap(step.run(batch));
  for (size_t i = 0; i < batch.size(); ++i) sum += loss.sums[i] * static_cast<double>(batch[i].share);
  return sum;
}

}  // namespace sluice

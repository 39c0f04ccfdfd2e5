// The rows of pictures and sounds that examples show. The model's towers compute them once, before training; they are
// not trained.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/history.h"
#include "engine/media/tower.h"
#include "model/model.h"

namespace sluice {

// A picture or sound of a sequence, in the place of as many tokens.
struct TrainMedia {
  MediaSpan span;
  MediaInput input;
};

class MediaRows {
 public:
  // Waits for the towers. Fails with the budget's sentence, or when the model lacks a tower.
  static Result<std::unique_ptr<MediaRows>> compute(const Model& model, Device& device, Budget& budget,
                                                    Arithmetic arithmetic, std::span<const TrainMedia* const> shown);
  // Bytes of the host's memory that they hold.
  static uint64_t bytes(const Model& model, std::span<const TrainMedia* const> shown);

  // f32 [hidden]. One of those that were computed.
  const float* row(const MediaRow& media) const;

 private:
  explicit MediaRows(uint32_t columns) : columns_(columns) {}
  Status compute_by(const TowerModel& model, Device& device, Budget& budget, Arithmetic arithmetic,
                    const std::vector<const MediaInput*>& inputs);

  uint32_t columns_;
  std::map<MediaDigest, std::vector<float>> rows_;
  Reservation reserved_;
};

}  // namespace sluice

// The checkpoints of a training, folders "step-N" of one folder. The last two stay.
//
// A checkpoint is written as "step-N.part" and then named, so one that has its name is complete, whenever the program
// was killed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "train/trainer.h"

namespace sluice {

class Checkpoints {
 public:
  explicit Checkpoints(std::string folder) : folder_(std::move(folder)) {}

  // Loads the newest one, if there is one. Removes what an interrupted save left.
  Status load_newest(Trainer& trainer) const;
  // Leaves out a step that is saved already. A save that fails takes no room.
  Status save(Trainer& trainer) const;

 private:
  std::vector<std::pair<uint64_t, std::string>> kept() const;  // by step

  const std::string folder_;
};

}  // namespace sluice

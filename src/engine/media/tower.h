// Tower: the program of one tower (model/tower.h), placed on a device. It plays one picture or sound at a time.
//
// The largest picture so far decides how much memory a tower has: a larger one places it again. Weights that the device
// reads where the checkpoint has them cost no memory of their own; in a page a device that computes in the host's
// memory has them read into it first.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "device/device.h"
#include "engine/plan/layout.h"
#include "graph/program.h"
#include "graph/step.h"
#include "model/tower.h"

namespace sluice {

class Tower {
 public:
  // What one for pictures or sounds of `rows` rows would hold of the budget.
  static Result<std::vector<MemoryLine>> memory(const TowerModel& model, const Device& device, Arithmetic arithmetic,
                                                uint32_t rows);
  // `model` outlives the tower. Fails with the budget's sentence.
  static Result<std::unique_ptr<Tower>> create(const TowerModel& model, Device& device, Budget& budget,
                                               Arithmetic arithmetic, uint32_t rows);

  uint32_t most_rows() const { return most_rows_; }
  // Begins a step. An error says which input does not fit the program. `rows`: [inputs.rows, columns()], untouched
  // until the step is done.
  Status start(const TowerInputs& inputs, std::span<float> rows);
  bool busy() const { return ticket_.has_value(); }
  // How the step ended; nothing while it runs.
  std::optional<Status> poll();
  // start() and poll() to the end.
  Status run(const TowerInputs& inputs, std::span<float> rows);
  // Whether poll() computes a piece of the step, so that waiting between two calls is of no use.
  bool computes_in_poll() const { return computes_in_poll_; }

 private:
  Tower(const TowerModel& model, const Device& device, std::unique_ptr<Runner> runner, const StepMaxima& maxima,
        uint32_t rows);
  Status fill(const TowerInputs& inputs);

  const TowerModel* model_;
  bool computes_in_poll_;
  uint32_t most_rows_;
  StepBuffer step_;
  Reservation reserved_;
  std::unique_ptr<HeldWeights> held_;  // null: the runner's weights are the model's
  std::unique_ptr<Runner> runner_;
  std::optional<Ticket> ticket_;
};

// Fills the program's inputs of a step whose counts are set.
Status fill_tower_inputs(const TowerInputs& inputs, StepBuffer& step);
// The value of the program's output "rows".
Result<ValueId> tower_rows(const Program& program);

}  // namespace sluice

// The output of --stats and --json about an answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/plan/forecast.h"
#include "base/budget.h"
#include "base/json.h"
#include "chat/conversation.h"
#include "engine/engine.h"
#include "engine/state/state_store.h"
#include "model/model.h"

namespace sluice {

struct RunFacts {
  std::string model, device, arithmetic, numerics_id;
  uint64_t seed = 0;
};

// How far off the forecast was: "plan    40.1 tokens/s foreseen, 1.03 times that seen"; "" where one is not known.
std::string plan_line(const Forecast& foreseen, double seen);
// The notes about failures with kept states. `states` may be null.
void say_notes(StateStore* states, Console& console);
// `engine`: which answered, with `model`. `foreseen`: before the model was opened.
std::string stats_text(const Reply& reply, const Budget& budget, const Engine& engine, const Model& model,
                       const std::optional<Forecast>& foreseen);
Json reply_json(const RunFacts& facts, const Reply& reply, const Budget& budget);
std::vector<JsonField> reply_fields();

}  // namespace sluice

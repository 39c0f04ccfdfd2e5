// The output of sluice plan: a table for people, one JSON object for programs.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/plan/forecast.h"
#include "base/json.h"
#include "engine/plan/tower_room.h"

namespace sluice {

struct PlanReport {
  std::string model, format, device;
  bool header_only = false, bounded = false;  // by --memory, or --device-memory
  uint64_t device_bytes = 0;                  // of a GPU's own memory; 0: unknown
  uint64_t host_held = 0;                     // of the host's memory, held already
  uint64_t parameters = 0;
  const MemoryPlan* plan = nullptr;
  std::vector<TowerRoom> towers;
  Forecast forecast;
};

std::string plan_text(const PlanReport& report);
Json plan_json(const PlanReport& report);
std::vector<JsonField> plan_fields();

}  // namespace sluice

// A model opened for talking: all that a Conversation points to, and the settings it begins with.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/bench/metered_device.h"
#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/open/open.h"
#include "app/plan/forecast.h"
#include "base/result.h"
#include "chat/conversation.h"
#include "chat/text_parts.h"
#include "engine/engine.h"
#include "model/model.h"

namespace sluice {

// In the order in which its parts are made; they are taken down the other way round.
struct Talker {
  ModelFiles files;
  Model model;
  TextParts text;
  std::unique_ptr<Meter> meter;            // of --record-routing, and
  std::unique_ptr<MeteredDevice> metered;  // the device that it is of; else null
  std::string expert_list;                 // where hot experts are kept; "": nowhere
  std::unique_ptr<Engine> engine;
  ConversationSettings settings;
  std::optional<Forecast> foreseen = {};  // with --stats, within --memory
};

// What --device auto is chosen for.
Result<DeviceNeeds> needs_of(const ModelFiles& files, const Arguments& arguments);
// `arguments` are those of sluice run. The machine outlives the talker.
Result<std::unique_ptr<Talker>> open_talker(ModelFiles files, const Arguments& arguments, Machine& machine,
                                            Console& console);
// Keeps which experts were hot, for the next time. What goes wrong is said, and that is all.
void keep_hot_experts(const Talker& talker, Console& console);

}  // namespace sluice

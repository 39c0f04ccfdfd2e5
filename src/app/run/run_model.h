// A model opened for `sluice run`: the model that chat/ opens, and the additions of the command's options.
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
#include "chat/adapter_shelf.h"
#include "chat/conversation.h"
#include "chat/open_model.h"

namespace sluice {

// In the order in which its parts are made. They are destroyed in reverse order.
struct RunModel {
  ModelFiles files;
  std::unique_ptr<Meter> meter;            // of --record-routing, and
  std::unique_ptr<MeteredDevice> metered;  // the device that it is of; else null
  std::string expert_list;                 // where hot experts are kept; "": nowhere
  std::unique_ptr<ChatModel> chat;
  AdapterShelf adapters;               // of the conversation
  ConversationSettings settings;       // that a new conversation begins with
  std::optional<Forecast> foreseen{};  // with --stats, within --memory

  const Model& model() const { return chat->model; }
  Engine& engine() const { return *chat->engine; }
  std::unique_ptr<Conversation> new_conversation(ConversationSettings with) const {
    return std::make_unique<Conversation>(chat->text, *chat->engine, std::move(with));
  }
};

// The size and use of the model for which --device auto chooses.
Result<DeviceNeeds> needs_of(const ModelFiles& files, const Arguments& arguments);
struct RunModelUse {
  bool talks = false;                   // in a chat, where a picture may come any time
  const AdapterShelf* shelf = nullptr;  // in the place of the store's and the arguments' adapters
};
// `arguments` are those of sluice run. The machine outlives the model.
Result<std::unique_ptr<RunModel>> open_run_model(ModelFiles files, const Arguments& arguments, Machine& machine,
                                                 Console& console, const RunModelUse& use);
// Keeps the list of hot experts for the next run. A failure is reported and otherwise ignored.
void keep_hot_experts(const RunModel& model, Console& console);

}  // namespace sluice

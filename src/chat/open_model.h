// Opens a model for answering, on a device and a budget that the caller hands in: files, text, settings, engine. Used
// by commands and the page's module alike; it prints nothing and reads neither arguments nor the environment.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/budget.h"
#include "base/result.h"
#include "chat/memory_bounds.h"
#include "chat/store_settings.h"
#include "chat/text_parts.h"
#include "checkpoint/contents.h"
#include "checkpoint/model_files.h"
#include "device/device.h"
#include "engine/engine.h"
#include "model/model.h"

namespace sluice {

// Stays where it is: conversations point into it.
struct ChatModel {
  Model model;
  TextParts text;
  StoreSettings settings;               // what the model's files and its store ask for
  std::unique_ptr<Engine> engine = {};  // there once open_chat_model() has returned
};

struct ChatModelRequest {
  ModelFiles files;
  std::string chat_template_path = {};                 // the user's; "": the model's own
  std::shared_ptr<ContentsMemory> contents = nullptr;  // as open_model() takes it
  bool draft_head = false;                             // as open_model() takes it
  // The engine's options for the model, once its files are read and before its weights take memory. An error ends the
  // opening.
  std::function<Result<EngineOptions>(const ChatModel&)> options;
};
Result<std::unique_ptr<ChatModel>> open_chat_model(const ChatModelRequest& request, Device& device, Budget& budget,
                                                   const MemoryBounds& bounds);

// A model that lies in no store.
ModelFiles files_at(std::string path);

// The parts of open_chat_model().

// `memory`: of what its files hold, for Model::digest(); null: they are read for it.
Result<Model> open_model(const std::string& path, std::shared_ptr<ContentsMemory> memory = nullptr);
// `draft_head`: a model without one of its own takes the one in a file beside it, where there is one.
Result<Model> open_model(const ModelFiles& files, bool draft_head, std::shared_ptr<ContentsMemory> memory = nullptr);
Result<StoreSettings> settings_of(const ModelFiles& files, const Model& model);
// Within a strict bound experts that find no room are read as they are chosen; so they are where the plan says that the
// host's memory holds the rest alone. A reserve is to be in the budget by then.
Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Budget& budget,
                                            const MemoryBounds& bounds, EngineOptions options);

}  // namespace sluice

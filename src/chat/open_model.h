// Opens a model for answering: files, text, settings, engine. The caller hands in the device and the budget. Commands
// and the page's module use it. It prints nothing and reads neither arguments nor the environment.
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

// Must not move, because conversations point into it.
struct ChatModel {
  Model model;
  TextParts text;
  StoreSettings settings;               // those of the model's files and its store
  std::unique_ptr<Engine> engine = {};  // set when open_chat_model() has returned
  std::string media_note = {};          // as open_engine() sets it
  std::string draft_note = {};          // why DraftFile::draft_model was left, in one sentence; else ""
};

// Whether a model takes the draft head or draft model in a file beside it, if there is one and it has none of its own.
// draft_model: a draft model alone, and a file that does not open is left.
enum class DraftFile : uint8_t { none, any, draft_model };

struct ChatModelRequest {
  ModelFiles files;
  std::string chat_template_path = {};                 // the user's; "": the model's own
  std::shared_ptr<ContentsMemory> contents = nullptr;  // as open_model() takes it
  DraftFile draft_file = DraftFile::none;
  // The engine's options for the model, once its files are read and before its weights take memory. An error ends the
  // opening.
  std::function<Result<EngineOptions>(const ChatModel&)> options;
};
Result<std::unique_ptr<ChatModel>> open_chat_model(const ChatModelRequest& request, Device& device, Budget& budget,
                                                   const MemoryBounds& bounds);

// A model outside any store.
ModelFiles files_at(std::string path);

// The parts of open_chat_model().

// `memory`: remembered digests for Model::digest(); null: the files are read for it.
Result<Model> open_model(const std::string& path, std::shared_ptr<ContentsMemory> memory = nullptr);
// The error with the model's name in place of its file's, which of Ollama's store is a digest.
Error named_after(const ModelFiles& files, const Error& why);
// Towers in a file of their own are a part of the model. `draft_note`: as in ChatModel.
Result<Model> open_model(const ModelFiles& files, DraftFile draft_file,
                         std::shared_ptr<ContentsMemory> memory = nullptr, std::string* draft_note = nullptr);
Result<StoreSettings> settings_of(const ModelFiles& files, const Model& model);
// Experts that find no room are read as they are chosen: within a strict bound, or if the plan says that the host's
// memory holds everything but experts. The budget must have its reserve by then. `media_note`: one sentence if
// EngineOptions::media found no room, which it may lack; else "".
Result<std::unique_ptr<Engine>> open_engine(const Model& model, Device& device, Budget& budget,
                                            const MemoryBounds& bounds, EngineOptions options,
                                            std::string* media_note = nullptr);

}  // namespace sluice

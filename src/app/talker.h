// A model opened for talking: all that a Conversation points to, and the settings it begins with.
#pragma once

#include <memory>
#include <string>

#include "app/args.h"
#include "app/console.h"
#include "app/conversation.h"
#include "app/open.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/text_files.h"
#include "model/model.h"

namespace sluice {

// In the order in which its parts are made; they are taken down the other way round.
struct Talker {
  ModelFiles files;
  Model model;
  TextParts text;
  std::unique_ptr<Engine> engine;
  ConversationSettings settings;
};

// `arguments` are those of sluice run. The machine outlives the talker.
Result<std::unique_ptr<Talker>> open_talker(ModelFiles files, const Arguments& arguments, Machine& machine,
                                            Console& console);

}  // namespace sluice

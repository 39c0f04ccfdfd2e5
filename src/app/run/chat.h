// A chat on the terminal: lines edited and remembered, commands that begin with a slash.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/run/run_model.h"
#include "base/budget.h"
#include "base/result.h"

namespace sluice {

struct ChatOptions {
  bool stats = false;                                     // after every answer
  std::string history_path;                               // "": typed lines are kept until the end only
  StateStore* states = nullptr;                           // its notes are shown
  PictureOptions pictures = {};                           // how /image prepares them
  std::vector<PreparedMedia> media = {};                  // that the first question shows
  std::string thumbnails = "none";                        // a value of --thumbnails
  std::string device;                                     // its description
  std::function<std::vector<std::string>()> models = {};  // names that /model completes
  std::function<Result<std::unique_ptr<RunModel>>(const std::string& name)> open;  // another model
  // The same model again, with room for these adapters.
  std::function<Result<std::unique_ptr<RunModel>>(const RunModel& model, const AdapterShelf& shelf)> with_room;
  std::function<void(const RunModel&)> close;  // called when a model is left
};

// Until /quit, Ctrl-D, or Ctrl-C twice; the exit status.
Result<int> chat(std::unique_ptr<RunModel> model, std::unique_ptr<Conversation> conversation, const Budget& budget,
                 Console& console, const ChatOptions& options);
// What /help lists: "/save FILE" and what it does.
std::vector<TableRow> chat_commands();

}  // namespace sluice

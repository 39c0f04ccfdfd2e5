// A chat on the terminal: lines edited and remembered, commands that begin with a slash.
#pragma once

#include "app/console.h"
#include "app/conversation.h"
#include "base/budget.h"
#include "base/result.h"

namespace sluice {

struct ChatOptions {
  bool stats = false;  // after every answer
};
// Until /quit, Ctrl-D, or Ctrl-C twice; the exit status.
Result<int> chat(Conversation& conversation, const Budget& budget, Console& console, const ChatOptions& options);

}  // namespace sluice

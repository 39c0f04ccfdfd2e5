#include "app/train/samples.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "chat/conversation.h"
#include "model/adapters/new_adapter.h"

namespace sluice {
namespace {

constexpr uint32_t kMostTokens = 64;  // of an answer

EngineOptions engine_options(const Model& model, const Arguments& arguments, const Adapter& adapter) {
  EngineOptions options;
  options.arithmetic = parse_arithmetic(arguments.text("--arithmetic"));
  options.context = std::min(static_cast<uint32_t>(arguments.integer("--context")), model.facts().context_length);
  options.adapter_room = {.slots = 1, .rank = adapter.rank()};
  for (const AdaptedWeight& weight : adapter.weights()) options.adapter_room.weights.push_back(weight.weight);
  return options;
}

}  // namespace

Result<std::unique_ptr<Samples>> Samples::open(const Model& model, const TextParts& text, Machine& machine,
                                               const Arguments& arguments, const Adapter& adapter, std::string folder,
                                               Console& console) {
  std::unique_ptr<Samples> made(new Samples(model, text, arguments.all("--sample"), std::move(folder)));
  TRY(made->engine_, open_engine(model, *machine.device, machine, engine_options(model, arguments, adapter), console));
  return made;
}

Result<std::vector<std::string>> Samples::answer(const Json& config, const std::vector<StoredFactor>& factors) {
  TRY_STATUS(write_adapter(folder_, config, factors));
  Result<std::shared_ptr<const Adapter>> adapter = Adapter::open(*model_, folder_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  if (!adapter) return adapter.error();
  ConversationSettings settings;
  settings.turn.sampling.temperature = 0;
  settings.turn.max_tokens = kMostTokens;
  settings.turn.adapters = {{.adapter = *adapter}};
  std::vector<std::string> answers;
  for (const std::string& question : questions_) {
    Conversation conversation(*text_, *engine_, settings);
    TRY(Reply reply, conversation.ask(question, {}));
    answers.push_back(std::move(reply.answer));
  }
  return answers;
}

}  // namespace sluice

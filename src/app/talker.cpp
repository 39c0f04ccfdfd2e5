#include "app/talker.h"

#include <algorithm>
#include <utility>

#include "app/sampling_options.h"
#include "base/text.h"

namespace sluice {
namespace {

Result<ConversationSettings> settings_of(const Arguments& arguments, const ModelFacts& facts) {
  ConversationSettings settings;
  settings.raw = arguments.flag("--raw");
  if (arguments.flag("--think") || arguments.flag("--no-think")) {
    settings.think = arguments.flag("--think");
  }
  settings.system = arguments.text("--system");
  TRY(settings.sampling, sampling_settings(arguments, facts));
  settings.max_tokens = static_cast<uint32_t>(arguments.integer("--max-tokens"));
  settings.stops = arguments.all("--stop");
  return settings;
}

}  // namespace

Result<std::unique_ptr<Talker>> open_talker(ModelFiles files, const Arguments& arguments, Machine& machine,
                                            Console& console) {
  TRY(Model model, open_model(files.path));
  TRY(TextParts text, open_text(model, {.chat_template_path = arguments.text("--chat-template")}));
  TRY(ConversationSettings settings, settings_of(arguments, model.facts()));
  if (!settings.system.empty() && !text.chat) {
    return error(ErrorKind::invalid, "run: --system: this model has no chat template: want --chat-template FILE");
  }
  EngineOptions options;
  options.arithmetic = parse_arithmetic(arguments.text("--arithmetic"));
  options.context = std::min(static_cast<uint32_t>(arguments.integer("--context")), model.facts().context_length);
  TRY(std::unique_ptr<Engine> engine, open_engine(model, *machine.device, machine.budget, options, console));
  return std::make_unique<Talker>(Talker{.files = std::move(files),
                                         .model = std::move(model),
                                         .text = std::move(text),
                                         .engine = std::move(engine),
                                         .settings = std::move(settings)});
}

}  // namespace sluice

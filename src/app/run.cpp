// sluice run: one answer, or a chat.
#include <algorithm>
#include <utility>

#include "app/chat.h"
#include "app/commands.h"
#include "app/console.h"
#include "app/conversation.h"
#include "app/interrupt.h"
#include "app/open.h"
#include "app/run_report.h"
#include "app/sampling_options.h"
#include "app/speaker.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/text_files.h"

namespace sluice {
namespace {

constexpr size_t kMaxPrompt = size_t{64} << 20;  // bytes read from a pipe

struct Words {
  std::string model = kDemoName;
  std::optional<std::string> prompt;
};

// One word alone is the model, unless it has a space in it and no file has that name: then it is a question to the
// demo.
Words split_words(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0].find(' ') != std::string::npos && path_kind(words[0]) == PathKind::missing) {
    return {kDemoName, words[0]};
  }
  Words split;
  if (!words.empty()) {
    split.model = words[0];
  }
  if (words.size() > 1) {
    split.prompt = words[1];
  }
  return split;
}

Result<std::string> piped_prompt(Console& console) {
  TRY(std::string text, console.read_in(kMaxPrompt));
  if (ends_with(text, "\n")) {
    text.pop_back();
  }
  if (text.empty()) {
    return error(ErrorKind::invalid, "run: standard input is empty: want a prompt");
  }
  return text;
}

Status check_options(const Arguments& arguments) {
  if (arguments.flag("--think") && arguments.flag("--no-think")) {
    return error(ErrorKind::invalid, "run: --think and --no-think: want one of them");
  }
  if (arguments.flag("--raw")) {
    for (const char* name : {"--system", "--chat-template", "--think", "--no-think"}) {
      if (arguments.given(name)) {
        return error(ErrorKind::invalid, "run: --raw and ", name, ": want one of them, since --raw uses no template");
      }
    }
  }
  return {};
}

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

// All that answers, in the order in which it is taken down again.
struct Runtime {
  Machine machine;
  Model model;
  TextParts text;
  std::unique_ptr<Engine> engine;
};

Result<Runtime> open_runtime(const Arguments& arguments, const std::string& path, Console& console) {
  TRY(Machine machine, open_machine(arguments));
  TRY(Model model, open_model(path));
  TRY(TextParts text, open_text(model, {.chat_template_path = arguments.text("--chat-template")}));
  EngineOptions options;
  options.arithmetic = parse_arithmetic(arguments.text("--arithmetic"));
  options.context = std::min(static_cast<uint32_t>(arguments.integer("--context")), model.facts().context_length);
  TRY(std::unique_ptr<Engine> engine, open_engine(model, *machine.device, machine.budget, options, console));
  return Runtime{std::move(machine), std::move(model), std::move(text), std::move(engine)};
}

std::string verbose_text(const Runtime& runtime, const Conversation& conversation) {
  const ModelFacts& facts = runtime.model.facts();
  return cat("model     ", printable(facts.name), " (", facts.family, ", ", facts.size_label, ")\ndevice    ",
             runtime.machine.device->info().description, "\nnumerics  ", runtime.engine->numerics_id(), "\ntemplate  ",
             conversation.has_template() ? printable(runtime.text.chat_name) : "none", ", dialect ",
             conversation.dialect().name, "\ncontext   ", runtime.engine->context(), "\n",
             runtime.machine.budget.table());
}

Result<int> answer_once(Conversation& conversation, const Runtime& runtime, const std::string& prompt,
                        const Arguments& arguments, const RunFacts& facts, Console& console) {
  const bool json = arguments.flag("--json");
  Speaker speaker(console, json);
  TRY(const Reply reply, conversation.ask(prompt, speaker.watch()));
  speaker.finish();
  if (json) {
    console.json(reply_json(facts, reply, runtime.machine.budget));
  }
  if (arguments.flag("--stats")) {
    console.err(stats_text(reply, runtime.machine.budget));
  }
  return interrupted() ? kInterruptedExit : 0;
}

Result<int> run(const Arguments& arguments, Console& console) {
  TRY_STATUS(check_options(arguments));
  Words words = split_words(arguments.positionals());
  TRY(const std::string path, model_path(words.model));
  const bool talks = !words.prompt && console.in_is_terminal();
  if (talks && arguments.flag("--json")) {
    return error(ErrorKind::invalid, "run: --json without a prompt: want one, since a chat is no JSON");
  }
  if (!words.prompt && !talks) {
    TRY(words.prompt, piped_prompt(console));
  }
  TRY(const Runtime runtime, open_runtime(arguments, path, console));
  TRY(ConversationSettings settings, settings_of(arguments, runtime.model.facts()));
  const RunFacts facts{path, runtime.machine.device->info().description, arguments.text("--arithmetic"),
                       runtime.engine->numerics_id(), settings.sampling.seed};
  Conversation conversation(runtime.text, *runtime.engine, std::move(settings));
  if (!conversation.has_template() && !conversation.system().empty()) {
    return error(ErrorKind::invalid, "run: --system: this model has no chat template: want --chat-template FILE");
  }
  if (arguments.flag("--verbose")) {
    console.err(verbose_text(runtime, conversation));
  }
  watch_interrupts();
  if (talks) {
    return chat(conversation, runtime.machine.budget, console, {.stats = arguments.flag("--stats")});
  }
  return answer_once(conversation, runtime, *words.prompt, arguments, facts, console);
}

std::vector<OptionSpec> own_options() {
  return {
      {.name = "--system", .argument = "TEXT", .kind = OptionKind::text, .help = "the system message"},
      {.name = "--chat-template",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "a Jinja template in place of the model's own"},
      {.name = "--raw", .help = "no template: the prompt is text that the model goes on with"},
      {.name = "--think", .help = "asks the template for thinking; it is shown apart, on standard error"},
      {.name = "--no-think", .help = "asks the template for an answer without thinking"},
      {.name = "--max-tokens",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "0",
       .help = "the longest answer; 0 for what the context leaves",
       .most = 1e9},
      {.name = "--stop",
       .argument = "STRING",
       .kind = OptionKind::text,
       .help = "ends the answer before this text; may be given several times",
       .repeated = true},
  };
}

std::vector<OptionSpec> engine_options() {
  return {
      {.name = "--arithmetic",
       .argument = "exact|fast",
       .kind = OptionKind::choice,
       .fallback = "fast",
       .help = "exact: everything in f32; fast: what the device does best"},
      {.name = "--context",
       .argument = "N",
       .kind = OptionKind::integer,
       .fallback = "8192",
       .help = "tokens a conversation may have, at most those of the model",
       .least = 1,
       .most = 1e9},
      {.name = "--stats", .help = "speed and memory on standard error, after every answer"},
      {.name = "--json", .help = "print one JSON object in place of the answer"},
      {.name = "--verbose", .help = "say on standard error what was opened"},
  };
}

}  // namespace

CommandSpec run_command() {
  return {
      .name = "run",
      .summary = "Answers a prompt, or chats",
      .text =
          "Without a prompt it chats on a terminal and takes the prompt from a pipe otherwise. Tokens are chosen as "
          "the model file asks, with seed 0, so that the same command gives the same answer. Thinking goes to "
          "standard error, never into the answer. Ctrl-C stops the answer, twice leaves.",
      .positionals = {{"MODEL", false,
                       "a Hugging Face directory or a GGUF file; demo, or nothing, is the built-in model"},
                      {"PROMPT", false, "the question; a single argument with a space in it is one to the demo"}},
      .options = join_options({own_options(), sampling_options(), device_options(), engine_options()}),
      .examples =
          {{"sluice run", "chat with the built-in demo"},
           {"sluice run \"What is a violin?\"", "one answer from it"},
           {"sluice run model.gguf --system \"Answer in one sentence.\" --greedy --stats \"Why is the sky blue?\"",
            "one answer, always the likeliest tokens, with speed and memory"},
           {"sluice run model.gguf --json < question.txt", "the prompt from a file, the answer as JSON"},
           {"sluice run model.gguf --raw --max-tokens 50 \"Once upon a time\"", "plain continuation"}},
      .json = reply_fields(),
      .run = run,
  };
}

}  // namespace sluice

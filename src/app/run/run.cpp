// sluice run: one answer, or a chat.
#include <algorithm>
#include <utility>

#include "app/bench/bench_routing.h"
#include "app/cli/console.h"
#include "app/cli/environment.h"
#include "app/cli/interrupt.h"
#include "app/commands.h"
#include "app/files/media_file.h"
#include "app/open/adapters.h"
#include "app/open/missing_model.h"
#include "app/open/open.h"
#include "app/run/chat.h"
#include "app/run/form_options.h"
#include "app/run/offer.h"
#include "app/run/prompt_input.h"
#include "app/run/run_model.h"
#include "app/run/run_report.h"
#include "app/run/sampling_options.h"
#include "app/run/shown_media.h"
#include "app/run/speaker.h"
#include "app/run/tool_options.h"
#include "base/files/file.h"
#include "base/text.h"
#include "chat/conversation.h"
#include "chat/store_settings.h"

namespace sluice {
namespace {

struct Words {
  std::string model = kDemoName;
  std::optional<std::string> prompt;
};

// One word alone is the model, unless it has a space in it and no file has that name: then it is a question to the
// demo.
Words split_words(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0].find(' ') != std::string::npos && path_kind(words[0]) == PathKind::missing)
    return {kDemoName, words[0]};
  Words split;
  if (!words.empty()) split.model = words[0];
  if (words.size() > 1) split.prompt = words[1];
  return split;
}

Status check_run(const Arguments& arguments, const Console& console) {
  if (arguments.flag("--think") && arguments.flag("--no-think"))
    return error(ErrorKind::invalid, "run: --think and --no-think: want one of them");
  for (const std::string& text : arguments.all("--logit-bias")) TRY_STATUS(check_bias(text));
  if (const Status form = check_form(arguments); !form) return error(form.error().kind, "run: ", form.error().text);
  if (const Status tools = check_tools(arguments); !tools)
    return error(tools.error().kind, "run: ", tools.error().text);
  if (arguments.flag("--raw")) {
    for (const char* name : {"--system", "--chat-template", "--think", "--no-think", "--tools"})
      if (arguments.given(name))
        return error(ErrorKind::invalid, "run: --raw and ", name, ": want one of them, since --raw uses no template");
  }
  const std::optional<std::string> prompt = split_words(arguments.positionals()).prompt;
  if (prompt && prompt->empty()) return error(ErrorKind::invalid, "run: PROMPT is empty: want a prompt");
  if (!prompt && console.in_is_terminal() && arguments.flag("--json"))
    return error(ErrorKind::invalid, "run: --json without a prompt: want one, since a chat is no JSON");
  return {};
}

std::string verbose_text(const RunModel& model, const Machine& machine, const Conversation& conversation) {
  const ModelFacts& facts = model.model().facts();
  return cat("model     ", printable(facts.name), " (", facts.family, ", ", facts.size_label, ")\ndevice    ",
             machine.device->info().description, "\nnumerics  ", model.engine().numerics_id(), "\ntemplate  ",
             conversation.has_template() ? printable(model.chat->text.chat_name) : "none", ", dialect ",
             conversation.dialect().name, "\ncontext   ", model.engine().context(), "\n", machine.budget.table());
}

void open_states(const Arguments& arguments, Machine& machine, Console& console) {
  machine.states = open_state_store(arguments);
  say_notes(machine.states.get(), console);
}

Result<std::vector<PreparedMedia>> given_media(const Model& model, const Arguments& arguments) {
  std::vector<PreparedMedia> media;
  for (const auto& [option, kind] : {std::pair("--image", MediaKind::picture), std::pair("--audio", MediaKind::sound),
                                     std::pair("--video", MediaKind::film)}) {
    for (const std::string& path : arguments.all(option)) {
      TRY(std::vector<PreparedMedia> one, open_media(model, path, kind, picture_options(arguments)));
      for (PreparedMedia& part : one) media.push_back(std::move(part));
    }
  }
  return media;
}

// On a terminal every answer that ends early. Elsewhere a full context alone: --max-tokens was asked for.
void say_cut(const Reply& reply, size_t context, bool json, Console& console) {
  const std::string note = cut_note(reply, context);
  const bool full = size_t{reply.usage.prompt_tokens} + reply.usage.answer_tokens >= context;
  if (note.empty() || json || (!console.err_is_terminal() && !full)) return;
  console.remark(cat("(", note, full ? "; --context N makes room)" : ")"));
}

Result<int> answer_once(Conversation& conversation, const Machine& machine, const std::string& prompt,
                        std::vector<PreparedMedia> media, const Arguments& arguments, const RunFacts& facts,
                        const RunModel& model, Console& console) {
  const Budget& budget = machine.budget;
  const bool json = arguments.flag("--json");
  if (!json) MediaDisplay(console, arguments.text("--thumbnails")).show(media, "");
  Speaker speaker(console, json);
  TRY(const Reply reply, conversation.ask(prompt, speaker.watch(), std::move(media)));
  speaker.finish();
  say_cut(reply, model.engine().context(), json, console);
  say_notes(machine.states.get(), console);
  if (json) console.json(reply_json(facts, reply, budget));
  if (arguments.flag("--stats")) console.err(stats_text(reply, budget, model.engine(), model.model(), model.foreseen));
  if (model.meter) TRY_STATUS(write_routing(recorded_routing(*model.meter), arguments.text("--record-routing")));
  return interrupted() ? kInterruptedExit : 0;
}

// Where the chat's lines are kept; "": nowhere.
std::string history_path(const Arguments& arguments) {
  const std::string folder = state_folder();
  return arguments.flag("--no-history") || folder.empty() ? "" : join_path(folder, "history");
}

// A model that is not here is offered to somebody who can answer.
Result<ModelFiles> found_or_pulled(const std::string& name, const Arguments& arguments, Console& console) {
  Result<ModelFiles> found = model_files(name, arguments);
  const bool missing = !found && found.error().kind == ErrorKind::not_found && can_be_pulled(name);
  if (!missing || !console.in_is_terminal() || !console.err_is_terminal()) return found;
  TRY(const bool pulled, offer_model(name, arguments, console));
  return pulled ? model_files(name, arguments) : std::move(found);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names = {kDemoName};
  for (const ListedModel& model : list_models(machine_places())) names.push_back(model.name);
  return names;
}

Result<int> run(const Arguments& arguments, Console& console) {
  Words words = split_words(arguments.positionals());
  TRY(ModelFiles files, found_or_pulled(words.model, arguments, console));
  const bool talks = !words.prompt && console.in_is_terminal();
  if (!talks) TRY_ASSIGN(words.prompt, whole_prompt(words.prompt, console));
  TRY(Machine machine, open_machine(arguments, [&] { return needs_of(files, arguments); }, console));
  open_states(arguments, machine, console);
  TRY(std::unique_ptr<RunModel> model, open_run_model(std::move(files), arguments, machine, console, {.talks = talks}));
  // Now, so that what it takes to read the model has a progress line of its own.
  if (machine.states != nullptr && machine.states->keeps()) model->model().digest();
  std::unique_ptr<Conversation> conversation = model->new_conversation(model->settings);
  if (arguments.flag("--verbose")) console.err(verbose_text(*model, machine, *conversation));
  const std::string note = go_template_note(model->files, model->chat->text.chat_name);
  if (!note.empty() && (arguments.flag("--verbose") || arguments.flag("--stats")))
    console.err(cat("store template  ", note, '\n'));
  TRY(std::vector<PreparedMedia> media, given_media(model->model(), arguments));
  watch_interrupts();
  if (talks) {
    const auto open = [&](const std::string& name) -> Result<std::unique_ptr<RunModel>> {
      TRY(ModelFiles other, model_files(name));
      return open_run_model(std::move(other), arguments, machine, console, {.talks = talks});
    };
    const auto with_room = [&](const RunModel& for_model, const AdapterShelf& shelf) {
      return open_run_model(for_model.files, arguments, machine, console, {.talks = talks, .shelf = &shelf});
    };
    return chat(std::move(model), std::move(conversation), machine.budget, console,
                {.stats = arguments.flag("--stats"),
                 .history_path = history_path(arguments),
                 .states = machine.states.get(),
                 .pictures = picture_options(arguments),
                 .media = std::move(media),
                 .thumbnails = arguments.text("--thumbnails"),
                 .device = machine.device->info().description,
                 .models = model_names,
                 .open = open,
                 .with_room = with_room,
                 .close = [&](const RunModel& left) { keep_hot_experts(left, console); }});
  }
  const RunFacts facts{model->files.path, machine.device->info().description, arguments.text("--arithmetic"),
                       model->engine().numerics_id(), model->settings.turn.sampling.seed};
  TRY(const int status,
      answer_once(*conversation, machine, *words.prompt, std::move(media), arguments, facts, *model, console));
  keep_hot_experts(*model, console);
  TRY_STATUS(model->model().checkpoint().check_unchanged());
  return status;
}

std::vector<OptionSpec> own_options() {
  return {
      {.name = "--image",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "shows a picture (PNG, JPEG, WebP, GIF, BMP) where <image> stands in the prompt, or before it; may be "
               "given several times",
       .repeated = true},
      {.name = "--audio",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help =
           "lets the model hear a sound (WAV, FLAC, Ogg, MP3) where <audio> stands in the prompt, or before it; may "
           "be given several times",
       .repeated = true},
      {.name = "--video",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help =
           "shows a film where <video> stands in the prompt, or before it; may be given several times. The programs "
           "ffmpeg and ffprobe decode it. The model looks at some of its frames and hears no sound",
       .repeated = true},
      adapter_option(),
      adapter_room_options()[0],
      adapter_room_options()[1],
      mmproj_option(),
      image_tokens_option(),
      {.name = "--system",
       .aliases = "-sys|--system-prompt",
       .argument = "TEXT",
       .kind = OptionKind::text,
       .help = "the system message"},
      {.name = "--chat-template",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "a Jinja template in place of the model's own"},
      {.name = "--raw", .help = "no template: the prompt is text that the model goes on with"},
      {.name = "--think", .help = "asks the template for thinking; it is shown apart, on standard error"},
      {.name = "--no-think", .help = "asks the template for an answer without thinking"},
      {.name = "--thinking-budget",
       .argument = "N",
       .kind = OptionKind::integer,
       .help = "the most tokens of thinking, behind which the thought is closed",
       .most = 1e9},
      {.name = "--max-tokens",
       .aliases = "-n|--n-predict|--num-predict",
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
      arithmetic_option(),
      cache_option(),
      repack_option("behind"),
      expert_memory_option(),
      context_option(),
      {.name = "--record-routing",
       .argument = "FILE",
       .kind = OptionKind::text,
       .help = "writes the experts that the answer's tokens chose, for sluice plan --routing. Only for models whose "
               "experts are read as they are chosen"},
      {.name = "--stats",
       .help = "prints speed and memory on standard error after every answer, and settings that were assumed because "
               "the model's file leaves them out"},
      {.name = "--json", .help = "print one JSON object in place of the answer"},
      {.name = "--no-expert-list",
       .help =
           "neither reads the experts that the model's last run used most, nor keeps their list. Only for models whose "
           "experts are read as they are chosen"},
      {.name = "--thumbnails",
       .argument = "auto|kitty|iterm2|sixel|none",
       .kind = OptionKind::choice,
       .fallback = "auto",
       .help = "how a terminal shows small pictures; auto asks the terminal"},
      {.name = "--no-history", .help = "keeps no line of the chat in the history file"},
      {.name = "--verbose", .aliases = "-v", .help = "say on standard error what was opened"},
  };
}

}  // namespace

CommandSpec run_command() {
  return {
      .name = "run",
      .summary = "Answers a prompt, or chats",
      .text =
          "Without a MODEL the built-in one answers. Without a prompt it chats on a terminal and takes the prompt "
          "from a pipe otherwise. Tokens are chosen as the model file asks, or the store it lies in, with seed 0, so "
          "that the same command gives the same answer. Thinking goes to standard error, never into the answer. "
          "Ctrl-C stops the answer, twice leaves.",
      .positionals = {model_positional(/*required=*/false),
                      {.name = "PROMPT",
                       .help = "the question, in quotes; a single argument with a space in it is one to the demo. - "
                               "stands for standard input, and @FILE for what a text file holds",
                       .option = "-p|--prompt",
                       .is_prose = true}},
      .options = join_options({own_options(), form_options(), tool_options(), sampling_options(),
                               device_options(/*answers=*/true), engine_options(), state_options(), draft_options()}),
      .tables = {{"In a chat", chat_commands()}},
      .examples =
          {{"sluice run", "chat with the built-in demo"},
           {"sluice run \"What is a violin?\"", "one answer from it"},
           {"sluice run model.gguf --system \"Answer in one sentence.\" --greedy --stats \"Why is the sky blue?\"",
            "one answer, always the likeliest tokens, with speed and memory"},
           {"sluice run model.gguf --json < question.txt", "the prompt from a file, the answer as JSON"},
           {"sluice run model.gguf --raw --max-tokens 50 \"Once upon a time\"", "plain continuation"}},
      .json = reply_fields(),
      .check = check_run,
      .run = run,
  };
}

}  // namespace sluice

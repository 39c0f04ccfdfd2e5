// sluice train: teaches a model an adapter from examples.
//
// OUT is a folder of PEFT when training has ended. Before that it has `checkpoints/step-N`, of which the last two stay;
// the same command line goes on from the last one.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "app/cli/console.h"
#include "app/cli/interrupt.h"
#include "app/commands.h"
#include "app/files/media_file.h"
#include "app/files/scratch_folder.h"
#include "app/open/open.h"
#include "app/train/checkpoints.h"
#include "app/train/event_file.h"
#include "app/train/foresee.h"
#include "app/train/kept_layers_option.h"
#include "app/train/metrics.h"
#include "app/train/plot.h"
#include "app/train/samples.h"
#include "app/train/train_options.h"
#include "base/base64.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "chat/training_data.h"
#include "model/adapters/gguf_adapter.h"
#include "model/adapters/mlx_config.h"
#include "model/adapters/new_adapter.h"
#include "train/trainer.h"

namespace sluice {
namespace {

constexpr size_t kShownFaults = 5;
constexpr size_t kCurveColumns = 72;
constexpr const char* kEventFile = "events.out.tfevents.0.sluice";  // TensorBoard knows it by "tfevents"

// Opens what examples show, each file once. Paths are relative to the file of the examples.
class ExampleMedia {
 public:
  ExampleMedia(const Model& model, const std::string& examples)
      : model_(&model), folder_(examples.substr(0, examples.size() - file_name(examples).size())) {}

  Result<std::vector<PreparedMedia>> open(MediaKind kind, const std::string& named) {
    const auto known = opened_.find({kind, named});
    if (known != opened_.end()) return known->second;
    TRY(std::vector<PreparedMedia> media, open_new(kind, named));
    return opened_[{kind, named}] = std::move(media);
  }

 private:
  Result<std::vector<PreparedMedia>> open_new(MediaKind kind, const std::string& named) const {
    if (starts_with(named, "data:")) return open_data(kind, named);
    if (named.find("://") != std::string::npos)
      return error(ErrorKind::unsupported, printable(named), ": is a URL: want a path or a data: URL");
    return open_media(*model_, starts_with(named, "/") ? named : folder_ + named, kind, {});
  }

  Result<std::vector<PreparedMedia>> open_data(MediaKind kind, const std::string& url) const {
    const size_t comma = std::min(url.find(','), url.size());
    std::optional<std::string> bytes;
    if (kind != MediaKind::film && ends_with(url.substr(0, comma), ";base64") && comma < url.size())
      bytes = decode_base64(std::string_view(url).substr(comma + 1));
    if (!bytes)
      return error(ErrorKind::invalid, "a data: URL is no ", media_kind_name(kind), ": want data:image/png;base64,...");
    return prepare_source(*model_, {.kind = kind, .name = "data: URL", .bytes = *std::move(bytes)});
  }

  const Model* model_;
  const std::string folder_;  // with a slash at its end, or empty
  std::map<std::pair<MediaKind, std::string>, std::vector<PreparedMedia>> opened_;
};

// The examples; a line that cannot be used is left out with a sentence, or with --strict ends the command.
Result<std::vector<TrainSequence>> read_examples(const Arguments& arguments, const Model& model, const TextParts& text,
                                                 uint32_t context, Console& console) {
  const std::string path = arguments.positionals()[1];
  TRY(const std::string lines, read_file(path, kMaxTrainingBytes));
  const bool pairs = arguments.text("--objective") == "dpo";
  ExampleMedia media(model, path);
  TrainingData data = read_training_data(
      lines, text,
      {.all = arguments.flag("--learn-all"),
       .max_tokens = context,
       .pairs = pairs,
       .open_media = [&](MediaKind kind, const std::string& named) { return media.open(kind, named); }});
  if (!data.faults.empty() && arguments.flag("--strict"))
    return error(ErrorKind::invalid, path, ": ", data.faults.front());
  for (size_t i = 0; i < std::min(data.faults.size(), kShownFaults); ++i)
    console.remark(cat(path, ": ", data.faults[i], "; left out"));
  if (data.faults.size() > kShownFaults)
    console.remark(cat(path, ": ", data.faults.size() - kShownFaults, " more lines are left out"));
  if (data.examples.empty())
    return error(
        ErrorKind::invalid, path,
        pairs ? ": has no pair: want a line with prompt, chosen and rejected"
              : ": has no example: want a line with messages, prompt and completion, or text, or question => answer");
  return std::move(data.examples);
}

// Before hours of training, not behind them.
Status check_can_be_written(const std::string& path) {
  TRY_STATUS(AtomicFile::create(path));
  return {};
}

class Training {
 public:
  Training(const Arguments& arguments, Console& console)
      : arguments_(arguments),
        console_(console),
        out_(arguments.text("--out")),
        checkpoints_(join_path(out_, "checkpoints")) {}

  Result<int> run() {
    TRY_STATUS(check_targets(arguments_.text("--targets")));
    TRY(machine_, open_machine(arguments_));
    TRY(const ModelFiles files, model_files(arguments_.positionals()[0]));
    TRY(model_, sluice::open_model(files, DraftFile::none));
    TRY(text_, open_text(*model_));
    TRY(std::vector<TrainSequence> examples,
        read_examples(arguments_, *model_, *text_, static_cast<uint32_t>(arguments_.integer("--context")), console_));
    TRY_STATUS(open_adapter());
    if (arguments_.given("--gguf")) TRY_STATUS(check_gguf_adapter(*model_, *adapter_));
    for (const char* option : {"--gguf", "--plot"})
      if (arguments_.given(option)) TRY_STATUS(check_can_be_written(arguments_.text(option)));
    TrainerOptions options = trainer_options(arguments_);
    TRY(factors_, TrainedFactors::create(adapter_, model_->weights(), *machine_->pool, machine_->budget));
    if (arguments_.given("--sample"))
      TRY_ASSIGN(samples_,
                 Samples::open(*model_, *text_, *machine_, arguments_, *adapter_, join_path(out_, "sample"), console_));
    measure_reserve(*machine_);
    TRY(options.kept_layers, layers_to_keep(arguments_, *machine_, *model_, [&](uint32_t kept) {
          options.kept_layers = kept;
          return Trainer::memory(*model_, *factors_, *machine_->device, examples, options);
        }));
    if (arguments_.flag("--dry-run"))
      return foresee(*model_, *factors_, *machine_, std::move(examples), options, arguments_, console_);
    TRY(trainer_,
        Trainer::create(*model_, *factors_, *machine_->device, machine_->budget, std::move(examples), options));
    TRY_STATUS(resume());
    return teach();
  }

 private:
  std::string start_folder() const { return join_path(out_, "start"); }

  // The adapter that training begins with lies in the folder, so that going on finds the same one. A dry run leaves
  // nothing there.
  Status open_adapter() {
    if (arguments_.given("--from")) {
      TRY(adapter_, Adapter::open(*model_, arguments_.text("--from")));
      const std::string config = join_path(arguments_.text("--from"), "adapter_config.json");
      TRY(const std::string text, read_file(config, kMaxDocumentBytes));
      TRY(config_, parse_json(text, config));
      // The configuration is written beside the factors that are learnt, which have PEFT's form.
      if (is_mlx_config(config_))
        return error(ErrorKind::unsupported, config, ": is of MLX: want an adapter of PEFT to begin with");
      return {};
    }
    TRY(NewAdapter made, new_adapter(*model_, {.rank = static_cast<uint32_t>(arguments_.integer("--rank")),
                                               .alpha = arguments_.number("--alpha"),
                                               .parts = parts_of(arguments_.text("--targets")),
                                               .seed = static_cast<uint64_t>(arguments_.integer("--seed")),
                                               .base_model = arguments_.positionals()[0]}));
    config_ = std::move(made.config);
    std::optional<ScratchFolder> scratch;
    if (arguments_.flag("--dry-run")) {
      scratch.emplace();
      if (scratch->path().empty())
        return error(ErrorKind::io, "no folder for temporary files: want TMPDIR to name one");
    }
    const std::string folder = scratch ? scratch->path() : start_folder();
    TRY_STATUS(write_adapter(folder, config_, made.tensors));
    TRY(adapter_, Adapter::open(*model_, folder));
    return {};
  }

  Status resume() {
    TRY_STATUS(checkpoints_.load_newest(*trainer_));
    TRY(metrics_, TrainingMetrics::open(out_, trainer_->steps_done()));
    for (const MetricsPoint& point : metrics_->points())
      if (point.held_out_loss) consider(*point.held_out_loss);
    if (arguments_.flag("--tensorboard")) {
      const std::string folder = join_path(out_, "tensorboard");
      TRY_STATUS(make_folders(folder));
      TRY(events_, EventFile::create(join_path(folder, kEventFile), metrics_->points()));
    }
    if (trainer_->steps_done() != 0)
      console_.remark(cat("goes on from step ", trainer_->steps_done(), " of ", trainer_->steps()));
    return {};
  }

  // Of the newest line of the metrics.
  Status add_event() { return events_ ? events_->add(metrics_->points().back()) : Status(); }

  Status draw() const {
    return arguments_.given("--plot") ? write_plot(arguments_.text("--plot"), metrics_->points()) : Status();
  }

  Status look_at_held_out(StepReport& report) {
    TRY(const std::optional<double> loss, trainer_->evaluate());
    if (!loss) return {};
    TRY_STATUS(metrics_->held_out(report.step, *loss));
    TRY_STATUS(add_event());
    console_.remark(cat("step ", report.step, ": held-out loss ", fixed(*loss, 4)));
    consider(*loss);
    return {};
  }

  Status ask_samples(uint64_t step) {
    if (samples_ == nullptr) return {};
    TRY_STATUS(trainer_->take_factors());
    TRY(const std::vector<std::string> answers,
        samples_->answer(config_, {factors_->tensors().begin(), factors_->tensors().end()}));
    for (size_t i = 0; i < answers.size(); ++i) {
      const std::string& question = samples_->questions()[i];
      TRY_STATUS(metrics_->sample(step, question, answers[i]));
      console_.remark(cat("step ", step, ": ", printable(question), " ", printable(answers[i])));
    }
    return {};
  }

  void consider(double held_out_loss) {
    const bool is_better = !best_ || held_out_loss < *best_;
    worse_ = is_better ? 0 : worse_ + 1;
    if (is_better) best_ = held_out_loss;
  }

  bool ends_early() const {
    const auto patience = static_cast<uint64_t>(arguments_.integer("--patience"));
    return patience != 0 && worse_ >= patience;
  }

  Status write_result() {
    TRY_STATUS(trainer_->take_factors());
    TRY_STATUS(write_adapter(out_, config_, {factors_->tensors().begin(), factors_->tensors().end()}));
    if (!arguments_.given("--gguf")) return {};
    TRY(const std::shared_ptr<const Adapter> trained, Adapter::open(*model_, out_));
    return write_gguf_adapter(arguments_.text("--gguf"), *model_, *trained);
  }

  Result<int> teach() {
    watch_interrupts();
    const auto save_every = static_cast<uint64_t>(arguments_.integer("--save-every"));
    const auto evaluate_every = static_cast<uint64_t>(arguments_.integer("--evaluate-every"));
    console_.remark(cat("learns ", trainer_->trained_examples(), " examples in ", trainer_->steps(), " steps"));
    StepReport last{.step = trainer_->steps_done(), .loss = metrics_->last_loss()};
    while (trainer_->steps_done() < trainer_->steps() && !interrupted() && !ends_early()) {
      TRY(last, trainer_->step());
      TRY_STATUS(metrics_->step(last));
      TRY_STATUS(add_event());
      show(last);
      if (last.step % evaluate_every == 0 || last.step == trainer_->steps()) {
        TRY_STATUS(look_at_held_out(last));
        TRY_STATUS(ask_samples(last.step));
        TRY_STATUS(draw());
      }
      if (last.step % save_every == 0) TRY_STATUS(checkpoints_.save(*trainer_));
    }
    if (console_.err_is_terminal()) console_.err(kClearLine);
    TRY_STATUS(checkpoints_.save(*trainer_));
    if (interrupted()) {
      console_.remark(cat("stopped at step ", last.step, "; the same command goes on from there"));
      return kInterruptedExit;
    }
    TRY_STATUS(write_result());
    TRY_STATUS(draw());
    if (console_.err_is_terminal()) console_.err(curve_text(metrics_->points(), kCurveColumns));
    if (arguments_.flag("--json"))
      console_.json(Json::Object{{"steps", static_cast<int64_t>(last.step)},
                                 {"loss", last.loss},
                                 {"held_out_loss", best_ ? Json(*best_) : Json()},
                                 {"adapter", out_}});
    else
      console_.out(cat(out_, ": an adapter after ", last.step, " steps, loss ", fixed(last.loss, 4), "\n"));
    return 0;
  }

  static std::string fixed(double number, int digits) {
    char text[48];
    std::snprintf(text, sizeof text, "%.*f", digits, number);
    return text;
  }

  void show(const StepReport& report) {
    const double rate = metrics_->tokens_per_second();
    const std::string line =
        cat("step ", report.step, " of ", trainer_->steps(), ", loss ", fixed(report.loss, 4), ", ", fixed(rate, 0),
            " tokens/s, ", metrics_->time_left(trainer_->steps() - report.step));
    if (console_.err_is_terminal())
      console_.err(cat(kClearLine, kDim, line, kPlain));
    else if (report.step == 1 || report.step % 10 == 0 || report.step == trainer_->steps())
      console_.remark(line);
  }

  const Arguments& arguments_;
  Console& console_;
  const std::string out_;
  const Checkpoints checkpoints_;
  std::optional<Machine> machine_;
  std::optional<Model> model_;
  std::optional<TextParts> text_;
  Json config_;
  std::shared_ptr<const Adapter> adapter_;
  std::unique_ptr<TrainedFactors> factors_;
  std::unique_ptr<Samples> samples_;  // null without --sample
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<TrainingMetrics> metrics_;
  std::optional<EventFile> events_;
  std::optional<double> best_;  // of the losses of held-out examples
  uint64_t worse_ = 0;          // evaluations since then
};

Result<int> run(const Arguments& arguments, Console& console) { return Training(arguments, console).run(); }

}  // namespace

CommandSpec train_command() {
  return {
      .name = "train",
      .summary = "Trains a LoRA adapter on examples",
      .text =
          "DATA is a file of JSON Lines: an object a line with messages (as OpenAI's API has them), with prompt and "
          "completion, or with text; or lines of question => answer. With --objective dpo a line has a prompt, a "
          "chosen and a rejected answer. "
          "Conversations are rendered by the model's chat template, and the model learns "
          "the answers. Messages may show pictures, sounds and films, by paths beside DATA or data: URLs. The weights "
          "stay as they are, in any format; only the adapter's factors are trained, by AdamW. "
          "OUT becomes a folder that PEFT, and every --adapter of this program, reads. metrics.jsonl in it has every "
          "step. Ctrl-C saves a checkpoint, and the same command line goes on from the last one to the same adapter, "
          "to the bit. The number of threads changes no bit either.",
      .positionals = {model_positional(/*required=*/true), {"DATA.jsonl", true, "the examples"}},
      .options = train_options(),
      .examples = {{"sluice train demo examples/words.jsonl --out my-words --epochs 12 --batch-tokens 256 --rate 2e-3",
                    "teaches the built-in model new words"},
                   {"sluice run demo --adapter my-words 'What is a blorptrix?'", "asks it"}},
      .json = {{"steps", "integer", "steps done"},
               {"loss", "number", "of the last step, before it"},
               {"held_out_loss", "number or null", "the best; null without --held-out"},
               {"adapter", "string", "the folder"},
               {"memory_bytes", "integer", "with --dry-run, which prints this and what follows alone: of the process"},
               {"device_memory_bytes", "integer", "with --dry-run: of the GPU"},
               {"kept_layers", "integer", "with --dry-run: layers whose products are kept for their gradients"},
               {"mapped_bytes", "integer", "with --dry-run: of the model's file that is read beside it"},
               {"seconds", "number", "with --dry-run: of the whole training"},
               {"tokens_per_second", "number", "with --dry-run: measured"}},
      .run = run,
  };
}

}  // namespace sluice

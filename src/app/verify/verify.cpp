// sluice verify: compares a model file with numbers that another implementation computed (golden.h), by the bars of
// verify_bars.h, on the device and in the arithmetic that would answer users.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "app/cli/console.h"
#include "app/cli/progress.h"
#include "app/commands.h"
#include "app/open/open.h"
#include "app/verify/compare.h"
#include "app/verify/verify_case.h"
#include "app/verify/verify_chat.h"
#include "app/verify/verify_drafts.h"
#include "app/verify/verify_report.h"
#include "base/files/file.h"
#include "base/text.h"
#include "device/reference/reference.h"
#include "engine/trace.h"

namespace sluice {
namespace {

// Perplexity asks for every row; more of them in a step than users ever ask for.
constexpr uint32_t kLogitsRows = 64;

// The format of most of the weights' bytes.
FileKind kind_of_file(const Model& model) {
  std::vector<uint64_t> bytes(kFormats);
  for (const BoundWeight& weight : model.weights().all()) {
    bytes[static_cast<size_t>(weight.tensor.format)] += weight.tensor.shape.experts *
                                                        uint64_t{weight.tensor.shape.rows} *
                                                        row_bytes(weight.tensor.format, weight.tensor.shape.columns);
  }
  const auto most = std::max_element(bytes.begin(), bytes.end());
  return kind_of_format(static_cast<Format>(most - bytes.begin()));
}

// Positions that the longest of these cases needs, greedy tokens included.
uint32_t longest_case(const std::vector<const GoldenCase*>& cases) {
  size_t longest = 1;
  for (const GoldenCase* one : cases) longest = std::max(longest, one->input_ids.size() + one->greedy.size());
  return static_cast<uint32_t>(longest);
}

// The adapters of the cases that have some, by the case's name.
using CaseAdapters = std::map<std::string, AdapterSum>;

Result<CaseAdapters> open_case_adapters(const Model& model, const Golden& golden,
                                        const std::vector<const GoldenCase*>& cases) {
  CaseAdapters by_case;
  std::map<std::string, std::shared_ptr<const Adapter>> opened;
  for (const GoldenCase* one : cases) {
    if (one->kind != kAdapterKind) continue;  // a training case opens its own
    for (const std::string& file : one->files) {
      std::shared_ptr<const Adapter>& adapter = opened[file];
      if (adapter == nullptr) TRY_ASSIGN(adapter, Adapter::open(model, join_path(golden.folder(), file)));
      by_case[one->name].push_back({.adapter = adapter});
    }
  }
  return by_case;
}

// Each of them once.
std::vector<AdapterSum> sums_of(const CaseAdapters& by_case) {
  std::map<std::vector<const Adapter*>, AdapterSum> sums;
  for (const auto& [name, sum] : by_case) {
    std::vector<const Adapter*> adapters;
    for (const AdapterUse& use : sum) adapters.push_back(use.adapter.get());
    sums.emplace(std::move(adapters), sum);
  }
  std::vector<AdapterSum> list;
  list.reserve(sums.size());
  for (auto& [adapters, sum] : sums) list.push_back(std::move(sum));
  return list;
}

// The engines of one arithmetic and the judge of its cases.
class Verifier {
 public:
  // `experts`: of the engine that is held to the bars.
  Verifier(const Model& model, const Golden& golden, const CaseAdapters& adapters, Machine& machine,
           const ExpertOptions& experts, const PictureOptions& pictures, const Bars& bars)
      : model_(model),
        golden_(golden),
        adapters_(adapters),
        machine_(machine),
        experts_(experts),
        pictures_(pictures),
        bars_(bars) {}

  Status open(Arithmetic arithmetic, uint32_t context, Console& console) {
    EngineOptions options;
    options.arithmetic = arithmetic_ = arithmetic;
    options.context = context;
    options.logits_rows = kLogitsRows;
    options.repack = Repack::behind;
    options.experts = experts_;
    options.adapters = sums_of(adapters_);
    TRY(engine_, open_engine(model_, *machine_.device, machine_, options, console));
    if (bars_.judge == Judge::reference) {
      reference_device_ = make_reference_device();
      options.arithmetic = Arithmetic::exact;
      options.experts = {};
      TRY(reference_, open_engine(model_, *reference_device_, machine_, options, console));
    }
    return {};
  }

  std::string numerics_id() const { return engine_->numerics_id(); }

  Result<CaseReport> run(const GoldenCase& golden_case) {
    if (golden_case.kind == kTrainingKind) return run_training(golden_case);
    if (golden_case.kind == kDraftKind) return run_draft_case(golden_case);
    const uint32_t vocabulary = model_.facts().vocabulary;
    TRY(const CaseMedia media, open_case_media(model_, golden_, golden_case, pictures_));
    TRY(const GoldenRun ours, run_case(*engine_, golden_case, media, adapters_of(golden_case), vocabulary));
    TRY(const Judgement golden, judge_by_golden(golden_, golden_case, vocabulary));
    std::optional<Judgement> reference;
    if (needs_reference(golden_case))
      TRY_ASSIGN(reference,
                 judge_by_reference(*reference_, golden_case, media, adapters_of(golden_case), vocabulary, ours));
    CaseReport report = report_case(golden_case, ours, golden, reference ? &*reference : nullptr, vocabulary, bars_);
    TRY_STATUS(add_trace(golden_case, media, report));
    return report;
  }

 private:
  // In fast arithmetic the numbers are only reported.
  Result<CaseReport> run_training(const GoldenCase& golden_case) {
    CaseReport report;
    report.name = golden_case.name;
    report.kind = golden_case.kind;
    TRY(report.training, train_case(model_, golden_, golden_case, *machine_.device, machine_.budget, arithmetic_));
    if (arithmetic_ == Arithmetic::exact && bars_.judge == Judge::golden) report.misses = missed_bars(*report.training);
    return report;
  }

  Result<CaseReport> run_draft_case(const GoldenCase& golden_case) {
    const uint32_t vocabulary = model_.facts().vocabulary;
    TRY(DraftRun ours, run_drafts(model_, *machine_.device, machine_.budget, arithmetic_, golden_case));
    TRY(const Judgement golden, judge_by_golden(golden_, golden_case, vocabulary));
    TRY(Trace judge, golden_values(golden_, golden_case));
    std::optional<Judgement> reference;
    if (reference_device_) {
      TRY(DraftRun run, run_drafts(model_, *reference_device_, machine_.budget, Arithmetic::exact, golden_case));
      judge = std::exchange(run.values, {});
      reference = judge_by(std::move(run), vocabulary);
    }
    if (arithmetic_ == Arithmetic::fast)
      leave_out_other_clusters(ours.guesses.rows, reference ? reference->rows : golden.rows, vocabulary);
    CaseReport report =
        report_case(golden_case, ours.guesses, golden, reference ? &*reference : nullptr, vocabulary, bars_);
    // The head's first layer has the errors of all layers of the text before it.
    Bars bars = bars_;
    if (bars.judged_names == JudgedNames::first_layer) bars.judged_names = JudgedNames::none;
    report_trace(report, compare_traces(ours.values, judge, bars), bars);
    return report;
  }

  AdapterSum adapters_of(const GoldenCase& golden_case) const {
    const auto found = adapters_.find(golden_case.name);
    return found == adapters_.end() ? AdapterSum() : found->second;
  }

  // Whether the reference's answer is held to any bar: it is slow, and long cases are most of its time.
  bool needs_reference(const GoldenCase& golden_case) const {
    return reference_ &&
           (bars_.logit_floor || bars_.ln_perplexity || bars_.median_relative || !golden_case.greedy.empty());
  }

  Status add_trace(const GoldenCase& golden_case, const CaseMedia& media, CaseReport& report) {
    TRY(Trace judge, golden_values(golden_, golden_case));
    if (judge.empty()) return {};
    TracedPrompt prompt{.tokens = golden_case.input_ids, .spans = media.spans, .adapters = adapters_of(golden_case)};
    for (const PreparedMedia& one : media.media) prompt.media.push_back(one.input);
    TRY(const Trace ours, trace(model_, *machine_.device, machine_.budget, arithmetic_, prompt));
    if (reference_device_)
      TRY_ASSIGN(judge, trace(model_, *reference_device_, machine_.budget, Arithmetic::exact, prompt));
    report_trace(report, compare_traces(ours, judge, bars_), bars_);
    return {};
  }

  const Model& model_;
  const Golden& golden_;
  const CaseAdapters& adapters_;
  Machine& machine_;
  const ExpertOptions experts_;
  const PictureOptions pictures_;
  const Bars bars_;
  Arithmetic arithmetic_{};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Device> reference_device_;  // and its engine: where the reference is the judge
  std::unique_ptr<Engine> reference_;
};

struct Selection {
  std::vector<const GoldenCase*> all, runnable;
  bool has_chat = false;  // among the runnable: the model's tokenizer and template are needed
};

std::optional<std::string> why_not_run(const Model& model, const GoldenCase& golden_case) {
  std::optional<std::string> reason = reason_not_run(golden_case.kind);
  if (reason) return reason;
  if (golden_case.kind == kDraftKind && !model.has(ProgramKind::draft_head))
    return "the model has no draft head: want one, or --draft-model";
  return reason_without_towers(model, golden_case);
}

Result<Selection> select_cases(const Model& model, const Golden& golden, const std::string& glob) {
  Selection selection;
  for (const GoldenCase& one : golden.cases()) {
    if (glob_matches(glob, one.name)) {
      selection.all.push_back(&one);
      if (!why_not_run(model, one)) {
        selection.runnable.push_back(&one);
        selection.has_chat |= one.kind == "chat";
      }
    }
  }
  if (selection.runnable.empty()) {
    return error(ErrorKind::not_found, "verify: --cases ", printable(glob), " selects ", selection.all.size(),
                 " cases and none that can be run: want another pattern");
  }
  return selection;
}

CaseReport not_run_report(const GoldenCase& golden_case, std::string reason) {
  CaseReport report;
  report.name = golden_case.name;
  report.kind = golden_case.kind;
  report.not_run = std::move(reason);
  return report;
}

// The model to verify, and the golden.
struct Subject {
  Golden golden;
  Selection selection;  // points into `golden`
  Model model;
  CaseAdapters adapters;
  std::optional<TextParts> text;  // where a chat case needs it
  FileKind file;
};

Result<std::unique_ptr<Subject>> open_subject(const Arguments& arguments) {
  TRY(Golden golden, Golden::open(arguments.text("--golden")));
  TRY(const ModelFiles files, model_files(arguments.positionals()[0], arguments));
  TRY(Model model, open_model(files, arguments.given("--draft-model") ? DraftFile::any : DraftFile::none));
  const FileKind file = kind_of_file(model);
  auto subject = std::make_unique<Subject>(Subject{std::move(golden), {}, std::move(model), {}, std::nullopt, file});
  TRY(subject->selection, select_cases(subject->model, subject->golden, arguments.text("--cases")));
  TRY(subject->adapters, open_case_adapters(subject->model, subject->golden, subject->selection.runnable));
  if (subject->selection.has_chat) TRY_ASSIGN(subject->text, open_text(subject->model));
  return subject;
}

Result<CaseReport> verify_case(const Subject& subject, Verifier& verifier, const GoldenCase& golden_case) {
  std::optional<std::string> reason = why_not_run(subject.model, golden_case);
  if (reason) return not_run_report(golden_case, *std::move(reason));
  TRY(CaseReport report, verifier.run(golden_case));
  if (subject.text) check_chat(*subject.text, golden_case, report);
  return report;
}

Result<VerifyRun> verify(const Subject& subject, Machine& machine, const Arguments& arguments, Arithmetic arithmetic,
                         Console& console) {
  VerifyRun run;
  run.arithmetic = arithmetic;
  run.bars = bars_for(subject.golden.model(), subject.file, arithmetic);
  Verifier verifier(subject.model, subject.golden, subject.adapters, machine, expert_options(arguments),
                    picture_options(arguments), run.bars);
  TRY_STATUS(verifier.open(arithmetic, longest_case(subject.selection.runnable), console));
  run.numerics_id = verifier.numerics_id();
  ProgressLine progress(console, cat("verifying in ", arithmetic_name(arithmetic), " arithmetic"), "cases");
  for (const GoldenCase* one : subject.selection.all) {
    progress.update(run.cases.size(), subject.selection.all.size());
    TRY(CaseReport report, verify_case(subject, verifier, *one));
    run.cases.push_back(std::move(report));
  }
  sum_up(run);
  return run;
}

std::vector<Arithmetic> parse_arithmetics(const std::string& name) {
  if (name == "both") return {Arithmetic::exact, Arithmetic::fast};
  return {parse_arithmetic(name)};
}

Result<int> run(const Arguments& arguments, Console& console) {
  TRY(const std::unique_ptr<Subject> subject, open_subject(arguments));
  TRY(Machine machine, open_machine(arguments));
  VerifyReport report;
  report.model = arguments.positionals()[0];
  report.golden = arguments.text("--golden");
  report.golden_model = subject->golden.model();
  report.device = machine.device->info().description;
  report.file = subject->file;
  for (const Arithmetic arithmetic : parse_arithmetics(arguments.text("--arithmetic"))) {
    TRY(VerifyRun run, verify(*subject, machine, arguments, arithmetic, console));
    report.runs.push_back(std::move(run));
  }
  TRY_STATUS(subject->model.checkpoint().check_unchanged());
  if (arguments.flag("--json"))
    console.json(report_json(report));
  else
    console.table(report_text(report));
  return count_cases(report).missed == 0 ? 0 : 1;
}

}  // namespace

CommandSpec verify_command() {
  return {
      .name = "verify",
      .summary = "Compares a model with numbers of another implementation",
      .text =
          "Computes every case of a golden like a user's request, also those that show pictures, sounds or films or "
          "have adapters. "
          "Compares logits, greedy tokens, "
          "perplexity and, in a second run that keeps them, named intermediates. Chat cases are also rendered with "
          "the model's template and tokenised: text and ids must be the golden's. A quantised file is compared "
          "with the reference device in exact arithmetic on the same file, other files with the golden itself. "
          "Training cases are trained by the golden's steps: gradients, losses and final factors are held to it in "
          "exact arithmetic. Draft cases compare the guesses of --draft-model, each made from the golden's tokens "
          "before it. "
          "Cases that need a tower that the model lacks are not run and never count as held. The "
          "exit status is 1 when a bar is missed.",
      .positionals = {model_positional(/*required=*/true)},
      .options = join_options({
          {{.name = "--golden",
            .argument = "FILE",
            .kind = OptionKind::text,
            .help = "the golden.json of the model; required",
            .required = true},
           {.name = "--arithmetic",
            .argument = "exact|fast|both",
            .kind = OptionKind::choice,
            .fallback = "both",
            .help = "the arithmetic to test"},
           {.name = "--cases",
            .argument = "GLOB",
            .kind = OptionKind::text,
            .fallback = "*",
            .help = "only cases whose name matches; * and ? stand for any characters and any one"}},
          device_options(),
          {expert_memory_option(),
           mmproj_option(),
           draft_model_option(),
           image_tokens_option(),
           {.name = "--json", .help = "print one JSON object"}},
      }),
      .examples =
          {{"sluice verify model.gguf --golden golden.json", "all cases, both arithmetics"},
           {"sluice verify ./model --golden ./model/golden.json --cases 'chat*' --arithmetic exact --device reference",
            "the reference device: slow, but the meaning of every op"}},
      .json = report_fields(),
      .run = run,
  };
}

}  // namespace sluice

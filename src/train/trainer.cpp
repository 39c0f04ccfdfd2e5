#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/files/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"

namespace sluice {
namespace {

constexpr const char* kFactorsFile = "factors.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";

// Numbers 0 to count - 1, shuffled (Fisher and Yates) by seed and round.
std::vector<size_t> shuffled(size_t count, uint64_t seed, uint64_t round) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (size_t i = count; i > 1; --i) {
    const PhiloxCounter counter = {static_cast<uint32_t>(i), static_cast<uint32_t>(round), 0x7a11, 0};
    const uint64_t drawn = philox4x32(counter, key)[0];
    std::swap(order[i - 1], order[static_cast<size_t>(drawn * i >> 32)]);
  }
  return order;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

// Polls until there is a result.
template <class Poll>
auto waited_for(const Poll& poll) -> Result<typename std::decay_t<decltype(*poll())>::value_type> {
  for (;;) {
    TRY(auto polled, poll());
    if (polled) return *std::move(polled);
    wait_a_moment();
  }
}

uint64_t tokens_of(const TrainSequence& sequence) { return sequence.tokens.size(); }

std::vector<const TrainMedia*> media_of(const std::vector<TrainSequence>& sequences) {
  std::vector<const TrainMedia*> media;
  for (const TrainSequence& sequence : sequences)
    for (const TrainMedia& one : sequence.media) media.push_back(&one);
  return media;
}

uint64_t targets_of(const TrainPart& sequences) {
  uint64_t targets = 0;
  for (const BatchPart& one : sequences) targets += one.sequence->targets();
  return targets;
}

// `sums`: of the sequences.
double mean_loss(const std::vector<double>& sums, const TrainPart& sequences) {
  return std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(targets_of(sequences));
}

uint64_t elements_of(const TrainedFactors& factors) {
  uint64_t elements = 0;
  for (const StoredFactor& one : factors.tensors()) elements += one.numbers.size();
  return elements;
}

Result<std::vector<std::vector<float>>> read_tensors(const Checkpoint& file, std::span<const StoredFactor> like,
                                                     const std::string& prefix) {
  std::vector<std::vector<float>> numbers;
  for (const StoredFactor& one : like) {
    const StoredTensor* stored = file.find(prefix + one.name);
    if (stored == nullptr || stored->format != Format::f32 || stored->shape != one.shape)
      return error(ErrorKind::corrupt, file.path(), ": ", printable(prefix + one.name),
                   " is missing or has another shape: ", "want the checkpoint of this adapter");
    numbers.emplace_back(one.numbers.size());
    std::memcpy(numbers.back().data(), stored->bytes.data(), numbers.back().size() * sizeof(float));
  }
  return numbers;
}

}  // namespace

StepSize Trainer::step_size(const std::vector<TrainSequence>& examples, const TrainerOptions& options) {
  StepSize size{.rows = options.part_tokens};
  uint64_t shortest = ~uint64_t{0};
  for (const TrainSequence& one : examples) {
    size.rows = std::max(size.rows, static_cast<uint32_t>(tokens_of(one)));
    shortest = std::min(shortest, tokens_of(one));
    size.shows_media = size.shows_media || !one.media.empty();
  }
  size.sequences =
      static_cast<uint32_t>(std::min<uint64_t>(size.rows / std::max<uint64_t>(shortest, 1) + 1, examples.size()));
  size.targets = size.rows;
  return size;
}

// Of sequences that are examples, or pairs of them.
size_t Trainer::held_out_count(size_t sequences, const TrainerOptions& options) {
  const size_t examples = options.dpo_beta > 0 ? sequences / 2 : sequences;
  return static_cast<size_t>(std::floor(options.held_out * static_cast<double>(examples)));
}

// Whether losses alone are wanted of some sequences.
bool Trainer::evaluates(size_t sequences, const TrainerOptions& options) {
  return options.dpo_beta > 0 || held_out_count(sequences, options) != 0;
}

void Trainer::divide(std::vector<TrainSequence> examples) {
  const size_t all = examples.size() / group(), count = held_out_count(examples.size(), options_);
  const std::vector<size_t> order = shuffled(all, options_.seed, 0);
  std::vector<bool> is_held_out(all);
  for (size_t i = 0; i < count; ++i) is_held_out[order[i]] = true;
  for (size_t i = 0; i < all * group(); ++i)
    (is_held_out[i / group()] ? held_out_ : trained_).push_back(std::move(examples[i]));
}

Status Trainer::compute_media(const Model& model, Device& device, Budget& budget) {
  std::vector<const TrainMedia*> shown = media_of(trained_);
  const std::vector<const TrainMedia*> more = media_of(held_out_);
  shown.insert(shown.end(), more.begin(), more.end());
  if (shown.empty()) return {};
  TRY(media_, MediaRows::compute(model, device, budget, options_.arithmetic, shown));
  return {};
}

Result<std::unique_ptr<Trainer>> Trainer::create(const Model& model, TrainedFactors& factors, Device& device,
                                                 Budget& budget, std::vector<TrainSequence> examples,
                                                 const TrainerOptions& options) {
  std::unique_ptr<Trainer> made(new Trainer(factors, options));
  made->size_ = step_size(examples, options);
  made->divide(std::move(examples));
  if (made->trained_.empty())
    return error(ErrorKind::invalid, "training: all examples are held out: want some to learn");
  TRY(made->reserved_,
      budget.reserve(Domain::host, Purpose::adapters, FactorOptimizer::bytes(options.optimizer, elements_of(factors))));
  TRY_STATUS(made->compute_media(model, device, budget));
  const TrainingStep::Options of_step{.arithmetic = options.arithmetic,
                                      .size = made->size_,
                                      .kept_layers = options.kept_layers,
                                      .on_device = FactorOptimizer::is_on_device(factors, device, options.optimizer),
                                      .media = made->media_.get()};
  TRY(made->step_, TrainingStep::create(model, factors, device, budget, of_step));
  made->optimizer_ = FactorOptimizer::make(options.optimizer, factors, *made->step_);
  if (made->has_pairs() || !made->held_out_.empty())
    TRY_ASSIGN(
        made->evaluation_,
        TrainingStep::create(
            model, factors, device, budget,
            {.arithmetic = options.arithmetic, .size = made->size_, .gradients = false, .media = made->media_.get()}));
  const uint64_t most = options.steps == 0 ? ~uint64_t{0} : options.steps;
  for (uint64_t epoch = 0; epoch < options.epochs && made->steps_ < most; ++epoch)
    for (const Batch& batch : made->batches_of(epoch)) {
      if (made->steps_ == most) break;
      ++made->steps_;
      for (const size_t example : batch.examples) made->tokens_ += tokens_of(made->trained_[example]);
    }
  made->epoch_ = made->batches_of(0);
  return made;
}

Result<std::vector<MemoryLine>> Trainer::memory(const Model& model, TrainedFactors& factors, const Device& device,
                                                const std::vector<TrainSequence>& examples,
                                                const TrainerOptions& options) {
  const StepSize size = step_size(examples, options);
  TRY(std::vector<MemoryLine> lines,
      TrainingStep::memory(model, factors, device,
                           {.arithmetic = options.arithmetic,
                            .size = size,
                            .kept_layers = options.kept_layers,
                            .on_device = FactorOptimizer::is_on_device(factors, device, options.optimizer)}));
  lines.push_back({Domain::host, Purpose::adapters, FactorOptimizer::bytes(options.optimizer, elements_of(factors))});
  lines.push_back({Domain::host, Purpose::staging, MediaRows::bytes(model, media_of(examples))});
  if (!evaluates(examples.size(), options)) return lines;
  TRY(const std::vector<MemoryLine> more,
      TrainingStep::memory(model, factors, device,
                           {.arithmetic = options.arithmetic, .size = size, .gradients = false}));
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

std::vector<Trainer::Batch> Trainer::batches_of(uint64_t epoch) const {
  std::vector<Batch> batches;
  uint64_t tokens = 0;
  for (const size_t example : shuffled(trained_examples(), options_.seed, epoch + 1)) {
    uint64_t more = 0;
    for (size_t i = 0; i < group(); ++i) more += tokens_of(trained_[example * group() + i]);
    if (batches.empty() || tokens + more > options_.batch_tokens) {
      batches.push_back({.epoch = epoch, .examples = {}});
      tokens = 0;
    }
    for (size_t i = 0; i < group(); ++i) batches.back().examples.push_back(example * group() + i);
    tokens += more;
  }
  return batches;
}

// Steps are asked for in ascending order, or from the beginning.
const Trainer::Batch& Trainer::batch(uint64_t step) {
  if (step < epoch_begin_) {
    epoch_begin_ = epoch_number_ = 0;
    epoch_ = batches_of(0);
  }
  while (step >= epoch_begin_ + epoch_.size()) {
    epoch_begin_ += epoch_.size();
    epoch_ = batches_of(++epoch_number_);
  }
  return epoch_[static_cast<size_t>(step - epoch_begin_)];
}

TrainPart Trainer::sequences_of(const Batch& batch) const {
  TrainPart sequences;
  for (const size_t example : batch.examples) sequences.push_back({.sequence = &trained_[example]});
  return sequences;
}

TrainPart Trainer::sequences_held_out() const {
  TrainPart sequences;
  for (const TrainSequence& one : held_out_) sequences.push_back({.sequence = &one});
  return sequences;
}

TrainPart Trainer::all_sequences() const {
  TrainPart all = sequences_held_out();
  for (const TrainSequence& one : trained_) all.push_back({.sequence = &one});
  return all;
}

uint64_t Trainer::held_out_tokens() const {
  uint64_t tokens = 0;
  for (const TrainSequence& one : held_out_) tokens += tokens_of(one);
  return tokens;
}

uint64_t Trainer::reference_tokens() const {
  uint64_t tokens = held_out_tokens();
  for (const TrainSequence& one : trained_) tokens += tokens_of(one);
  return tokens;
}

// An evaluation has factors of its own, which come from the tensors.
void Trainer::begin(Stage stage, TrainingStep& step, const TrainPart& sequences) {
  stage_ = stage;
  stops_ = false;
  takes_ = &step == evaluation_.get();
  if (!takes_) run_.begin(step, PartRun::parts_of(sequences, size_));
}

void Trainer::stop() {
  stops_ = true;
  run_.stop();
}

// The losses of pairs before the factors change for the first time are those that they are held against.
void Trainer::begin_pairs() {
  if (reference_.empty())
    begin(Stage::reference, *evaluation_, all_sequences());
  else
    begin(Stage::preference, *evaluation_, sequences_);
}

void Trainer::keep_reference(const std::vector<double>& sums) {
  const TrainPart all = all_sequences();
  for (size_t i = 0; i < all.size(); ++i) reference_[all[i].sequence] = sums[i];
}

Status Trainer::take_reference() {
  if (!has_pairs() || !reference_.empty()) return {};
  begin_pairs();
  TRY(const std::vector<double> sums, waited_for([&] { return poll_run(); }));
  keep_reference(sums);
  return {};
}

// `sums`: of sequences_.
Trainer::Preference Trainer::prefer(const std::vector<double>& sums) const {
  const auto gained = [&](size_t i) { return reference_.at(sequences_[i].sequence) - sums[i]; };
  const double pairs = static_cast<double>(sequences_.size()) / 2;
  Preference all;
  for (size_t i = 0; i < sequences_.size(); i += 2) {
    const double margin = options_.dpo_beta * (gained(i) - gained(i + 1));
    // log(1 + exp(-margin)), whose derivative is -sigmoid(-margin).
    all.loss += (std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)))) / pairs;
    all.preferred += margin > 0 ? 1 / pairs : 0;
    const double share = options_.dpo_beta / (1 + std::exp(margin)) / pairs;
    all.shares.push_back(static_cast<float>(share));
    all.shares.push_back(static_cast<float>(-share));
  }
  return all;
}

// The shares of the step's sequences become those of their pairs.
void Trainer::weigh(const Preference& preference) {
  for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i].share = preference.shares[i];
  report_.loss = preference.loss;
  report_.preferred = preference.preferred;
}

void Trainer::begin_step() {
  const Batch& now = batch(done_);
  report_ = {.step = done_ + 1, .epoch = now.epoch + 1};
  sequences_ = sequences_of(now);
  for (const BatchPart& one : sequences_) report_.tokens += tokens_of(*one.sequence);
  const float share = 1 / static_cast<float>(targets_of(sequences_));
  for (BatchPart& one : sequences_) one.share = share;
  optimizer_->clear_gradients();
  if (has_pairs())
    begin_pairs();
  else
    begin(Stage::losses, *step_, sequences_);
}

// The losses of the stage at hand.
Result<std::optional<std::vector<double>>> Trainer::poll_run() {
  if (!takes_) return run_.poll();
  Result<bool> taken = optimizer_->poll_factors();
  takes_ = taken && !*taken;
  if (!taken) return taken.error();
  if (*taken && !stops_)
    run_.begin(*evaluation_, PartRun::parts_of(stage_ == Stage::reference ? all_sequences() : sequences_, size_));
  return std::optional<std::vector<double>>();
}

// Those that pairs are held against are kept, and their stage is followed by another.
Result<std::optional<std::vector<double>>> Trainer::poll_losses() {
  TRY(std::optional<std::vector<double>> sums, poll_run());
  if (!sums || stage_ != Stage::reference) return sums;
  keep_reference(*sums);
  begin_pairs();
  return std::optional<std::vector<double>>();
}

Result<std::optional<StepReport>> Trainer::poll_step() {
  if (updates_) return poll_update();
  TRY(const std::optional<std::vector<double>> sums, poll_losses());
  if (!sums) return std::optional<StepReport>();
  if (stage_ == Stage::preference) {
    weigh(prefer(*sums));
    begin(Stage::losses, *step_, sequences_);
    return std::optional<StepReport>();
  }
  if (!has_pairs()) report_.loss = mean_loss(*sums, sequences_);
  begin_update();
  return poll_update();
}

void Trainer::begin_evaluation() {
  sequences_ = sequences_held_out();
  if (has_pairs())
    begin_pairs();
  else
    begin(Stage::losses, *evaluation_, sequences_);
}

Result<std::optional<double>> Trainer::poll_evaluation() {
  TRY(const std::optional<std::vector<double>> sums, poll_losses());
  if (!sums) return std::optional<double>();
  return std::optional(has_pairs() ? prefer(*sums).loss : mean_loss(*sums, sequences_));
}

Result<StepReport> Trainer::step() {
  begin_step();
  return waited_for([&] { return poll_step(); });
}

Result<std::optional<double>> Trainer::evaluate() {
  if (held_out_.empty()) return std::optional<double>();
  begin_evaluation();
  TRY(const double loss, waited_for([&] { return poll_evaluation(); }));
  return std::optional(loss);
}

// The optimizer's part of a step.
void Trainer::begin_update() {
  report_.rate = scheduled_rate(options_.rate, done_, options_.warm_up, steps_);
  optimizer_->begin_update(report_.rate);
  updates_ = true;
}

Status Trainer::check_gradient(double norm) const {
  if (std::isfinite(norm)) return {};
  return error(ErrorKind::invalid, "training: the gradient of step ", done_ + 1,
               " is not finite: want a lower learning rate or other data");
}

Result<std::optional<StepReport>> Trainer::poll_update() {
  Result<std::optional<double>> norm = optimizer_->poll_update();
  updates_ = norm && !*norm;
  if (!norm) return norm.error();
  if (!*norm) return std::optional<StepReport>();
  TRY_STATUS(check_gradient(**norm));
  report_.gradient_norm = **norm;
  ++done_;
  return std::optional(report_);
}

Result<double> Trainer::measure_parts(TrainingStep& step, const std::vector<TrainPart>& parts, double seconds) {
  double taken = 0;
  uint64_t tokens = 0;
  for (size_t i = 0; i <= parts.size() && (tokens == 0 || taken < seconds); ++i) {
    const TrainPart& part = parts[i % parts.size()];
    const Clock::time_point began = Clock::now();
    TRY_STATUS(step.run(part));
    const double of_part = seconds_since(began);
    if (i == 0 && of_part < 3 * seconds) continue;  // the first one also reads the model's file
    taken += of_part;
    for (const BatchPart& one : part) tokens += tokens_of(*one.sequence);
  }
  return static_cast<double>(tokens) / std::max(taken, 1e-9);
}

Result<TrainerPace> Trainer::measure(double seconds) {
  std::vector<TrainPart> parts;
  constexpr size_t kMostParts = 1000;
  for (uint64_t step = 0; step < steps_ && parts.size() < kMostParts; ++step)
    for (TrainPart& part : PartRun::parts_of(sequences_of(batch(step)), size_)) parts.push_back(std::move(part));
  TrainerPace pace;
  TRY(pace.tokens_per_second, measure_parts(*step_, parts, seconds));
  const Clock::time_point began = Clock::now();
  TRY(const double norm, optimizer_->update(options_.rate));
  TRY_STATUS(check_gradient(norm));
  pace.update_seconds = seconds_since(began);
  if (evaluation_ != nullptr)
    TRY_ASSIGN(pace.evaluation_tokens_per_second, measure_parts(*evaluation_, parts, seconds));
  return pace;
}

// Of everything that decides what later steps do.
std::string Trainer::fingerprint() const {
  const OptimizerOptions& o = options_.optimizer;
  Sha256 sha;
  sha.add(cat(o.adam, " ", format_number(o.beta1), " ", format_number(o.beta2), " ", format_number(o.eps), " ",
              format_number(o.weight_decay), " ", format_number(o.clip), " ", format_number(options_.rate), " ",
              options_.warm_up, " ", steps_, " ", options_.batch_tokens, " ", size_.rows, " ",
              format_number(options_.held_out), " ", options_.seed));
  if (has_pairs()) sha.add(cat(" dpo ", format_number(options_.dpo_beta)));
  for (const std::vector<TrainSequence>* some : {&trained_, &held_out_})
    for (const TrainSequence& one : *some) {
      sha.add(std::as_bytes(std::span(one.tokens)));
      sha.add(std::as_bytes(std::span(one.is_target)));
      for (const TrainMedia& media : one.media) {
        sha.add(cat(" media ", media.span.at));
        sha.add(std::as_bytes(std::span(media.span.content)));
      }
    }
  return sha.finish_hex();
}

Status Trainer::save(const std::string& folder) {
  TRY_STATUS(make_folders(folder));
  TRY_STATUS(take_factors());
  TRY(const FactorOptimizer::State trained, optimizer_->state());
  std::vector<SavedTensor> factors, optimizer;
  const std::span<const StoredFactor> tensors = std::as_const(*factors_).tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    factors.push_back({tensors[i].name, tensors[i].shape, tensors[i].numbers});
    if (trained.means.empty()) continue;
    optimizer.push_back({"mean " + tensors[i].name, tensors[i].shape, trained.means[i]});
    optimizer.push_back({"square " + tensors[i].name, tensors[i].shape, trained.squares[i]});
  }
  TRY_STATUS(write_safetensors(join_path(folder, kFactorsFile), factors));
  TRY_STATUS(write_safetensors(join_path(folder, kOptimizerFile), optimizer));
  const Json state = Json::Object{{"steps", static_cast<int64_t>(done_)}, {"fingerprint", fingerprint()}};
  return write_file(join_path(folder, kStateFile), write_json(state) + "\n");
}

Status Trainer::load(const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  TRY(const std::string text, read_file(path, kMaxDocumentBytes));
  TRY(const Json state, parse_json(text, path));
  const Json *steps = state.find("steps"), *fingerprint = state.find("fingerprint");
  if (steps == nullptr || !steps->is_integer() || fingerprint == nullptr || !fingerprint->is_string())
    return error(ErrorKind::corrupt, path, ": has no steps or fingerprint: want a checkpoint of training");
  if (fingerprint->as_string() != this->fingerprint())
    return error(ErrorKind::invalid, folder,
                 ": is a checkpoint of other examples or options: want those it was made with, or another --out");
  TRY_STATUS(take_reference());
  const std::span<StoredFactor> tensors = factors_->tensors();
  TRY(const Checkpoint factors, open_safetensors(join_path(folder, kFactorsFile)));
  TRY(std::vector<std::vector<float>> numbers, read_tensors(factors, tensors, ""));
  std::vector<std::vector<float>> means, squares;
  if (options_.optimizer.adam) {
    TRY(const Checkpoint optimizer, open_safetensors(join_path(folder, kOptimizerFile)));
    TRY_ASSIGN(means, read_tensors(optimizer, tensors, "mean "));
    TRY_ASSIGN(squares, read_tensors(optimizer, tensors, "square "));
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].numbers = std::move(numbers[i]);
  done_ = static_cast<uint64_t>(std::clamp<int64_t>(steps->as_integer(), 0, static_cast<int64_t>(steps_)));
  optimizer_->restore(done_, std::move(means), std::move(squares));
  factors_->lay_out();
  return {};
}

}  // namespace sluice

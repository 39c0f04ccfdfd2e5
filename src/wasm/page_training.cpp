#include "wasm/page_training.h"

#include <algorithm>
#include <utility>

#include "base/files/file.h"
#include "base/files/memory_files.h"
#include "base/text.h"
#include "model/adapters/gguf_adapter.h"
#include "model/adapters/new_adapter.h"
#include "train/kept_layers.h"
#include "wasm/json_members.h"

namespace sluice::wasm {
namespace {

// Where an adapter lies while it is read or written.
constexpr const char* kStartFolder = "adapter that training begins with";
constexpr const char* kTrainedFolder = "trained adapter";
constexpr const char* kGgufFile = "adapter.gguf";
constexpr uint64_t kMostFileBytes = uint64_t{1} << 32;

constexpr uint32_t kMostRank = 4096, kMostTokens = 1000000;
constexpr uint64_t kMostSteps = 1000000000;

void forget_folder(const std::string& folder) {
  std::erase_if(memory_files(), [&](const auto& file) { return starts_with(file.first, folder + "/"); });
}

Result<TrainingData> read_examples(const ChatModel& chat, const Json& options) {
  constexpr uint32_t kUsualTokens = 2048;
  TRY(const std::string lines, text_of(options, "examples", ""));
  TrainingDataOptions how;
  TRY(how.all, flag_of(options, "learn_all", false));
  TRY(how.max_tokens, number_of<uint32_t>(options, "max_tokens", kUsualTokens, 2, kMostTokens));
  return read_training_data(lines, chat.text, how);
}

Json counts_of(const TrainingData& data) {
  uint64_t tokens = 0;
  for (const TrainSequence& one : data.examples) tokens += one.tokens.size();
  return Json::Object{{"examples", static_cast<int64_t>(data.examples.size())},
                      {"tokens", static_cast<int64_t>(tokens)},
                      {"faults", Json::Array(data.faults.begin(), data.faults.end())}};
}

}  // namespace

Result<Json> PageTraining::look_at(const ChatModel& chat, const Json& options) {
  TRY(const TrainingData data, read_examples(chat, options));
  return counts_of(data);
}

Result<std::unique_ptr<PageTraining>> PageTraining::prepare(const ChatModel& chat, const Json& options) {
  std::unique_ptr<PageTraining> made(new PageTraining(chat));
  TRY(made->data_, read_examples(chat, options));
  made->examples_ = made->data_.examples.size();
  if (made->examples_ == 0) {
    const std::vector<std::string>& faults = made->data_.faults;
    return error(ErrorKind::invalid, "the examples have none that can be learnt: ",
                 faults.empty() ? "want a line for each, such as question => answer" : faults.front());
  }
  TRY_STATUS(made->read_options(options));
  TRY_STATUS(made->make_adapter(options));
  return made;
}

PageTraining::~PageTraining() {
  forget_folder(kStartFolder);
  forget_folder(kTrainedFolder);
}

Status PageTraining::read_options(const Json& options) {
  constexpr uint64_t kUsualPasses = 10;
  constexpr uint32_t kUsualBatch = 256, kUsualPart = 512;  // tokens
  TRY(const std::string arithmetic, text_of(options, "arithmetic", "fast"));
  if (arithmetic != "fast" && arithmetic != "exact")
    return error(ErrorKind::invalid, "arithmetic ", printable(arithmetic), ": want exact or fast");
  options_.arithmetic = arithmetic == "fast" ? Arithmetic::fast : Arithmetic::exact;
  TRY(options_.rate, number_of<double>(options, "rate", options_.rate, 0, 10));
  TRY(options_.warm_up, number_of<uint64_t>(options, "warm_up", 0, 0, kMostSteps));
  TRY(options_.steps, number_of<uint64_t>(options, "steps", 0, 0, kMostSteps));
  TRY(options_.epochs, number_of<uint64_t>(options, "epochs", 0, 0, kMostSteps));
  // An epoch has a step at least.
  if (options_.epochs == 0) options_.epochs = options_.steps != 0 ? options_.steps : kUsualPasses;
  TRY(options_.batch_tokens, number_of<uint32_t>(options, "batch_tokens", kUsualBatch, 2, kMostTokens));
  TRY(const uint32_t part, number_of<uint32_t>(options, "part_tokens", kUsualPart, 2, kMostTokens));
  options_.part_tokens = std::min(part, options_.batch_tokens);
  TRY(options_.seed, number_of<uint64_t>(options, "seed", 0));
  return {};
}

Status PageTraining::make_adapter(const Json& options) {
  NewAdapterOptions how{.base_model = chat_->model.facts().name};
  TRY(how.rank, number_of<uint32_t>(options, "rank", how.rank, 1, kMostRank));
  TRY(how.alpha, number_of<double>(options, "alpha", 2.0 * how.rank, 1e-6, 1e6));
  how.seed = options_.seed;
  TRY(NewAdapter made, new_adapter(chat_->model, how));
  config_ = std::move(made.config);
  forget_folder(kStartFolder);
  TRY_STATUS(write_adapter(kStartFolder, config_, made.tensors));
  TRY(adapter_, Adapter::open(chat_->model, kStartFolder));
  return {};
}

Status PageTraining::begin(Device& device, ThreadPool& pool, Budget& budget) {
  TRY(factors_, TrainedFactors::create(adapter_, chat_->model.weights(), pool, budget));
  TRY(options_.kept_layers,
      most_kept_layers(chat_->model.facts().layers, budget, KeptMemory::by_half, [&](uint32_t kept) {
        options_.kept_layers = kept;
        return Trainer::memory(chat_->model, *factors_, device, data_.examples, options_);
      }));
  TRY(trainer_, Trainer::create(chat_->model, *factors_, device, budget, std::exchange(data_.examples, {}), options_));
  return {};
}

Json PageTraining::describe() const {
  return Json::Object{{"examples", static_cast<int64_t>(examples_)},
                      {"steps", static_cast<int64_t>(trainer_->steps())},
                      {"tokens", static_cast<int64_t>(trainer_->tokens())},
                      {"faults", Json::Array(data_.faults.begin(), data_.faults.end())}};
}

Json PageTraining::news(const char* finish) const {
  return Json::Object{
      {"finish", finish},   {"step", static_cast<int64_t>(last_.step)}, {"loss", last_.loss},
      {"rate", last_.rate}, {"gradient_norm", last_.gradient_norm},     {"tokens", static_cast<int64_t>(last_.tokens)}};
}

Result<std::optional<Json>> PageTraining::go_on() {
  const auto all_done = [&] { return trainer_->steps_done() == trainer_->steps(); };
  if (!trainer_->running() && !all_done() && !stops_) trainer_->begin_step();
  if (trainer_->running()) {
    TRY(const std::optional<StepReport> report, trainer_->poll_step());
    TRY_STATUS(chat_->model.checkpoint().check_unchanged());
    if (!report) return std::optional<Json>();
    last_ = *report;
    if (!all_done()) return std::optional(news("running"));
  }
  TRY(const bool taken, trainer_->poll_factors());
  if (!taken) return std::optional<Json>();
  return std::optional(news(all_done() ? "done" : "stopped"));
}

void PageTraining::stop() {
  stops_ = true;
  trainer_->stop();
}

// What could not be read of the model went into the steps as zeros.
Result<std::string> PageTraining::file(std::string_view name) const {
  TRY_STATUS(chat_->model.checkpoint().check_unchanged());
  forget_folder(kTrainedFolder);
  TRY_STATUS(write_adapter(kTrainedFolder, config_, {factors_->tensors().begin(), factors_->tensors().end()}));
  const std::string path = join_path(kTrainedFolder, name);
  if (name == kGgufFile) {
    TRY(const std::shared_ptr<const Adapter> trained, Adapter::open(chat_->model, kTrainedFolder));
    TRY_STATUS(check_gguf_adapter(chat_->model, *trained));
    TRY_STATUS(write_gguf_adapter(path, chat_->model, *trained));
  }
  Result<std::string> bytes = read_file(path, kMostFileBytes);
  forget_folder(kTrainedFolder);
  return bytes;
}

}  // namespace sluice::wasm

#include "app/verify/training_golden.h"

#include <algorithm>

namespace sluice {
namespace {

Error fault(const std::string& where, std::string_view member, const char* want) {
  return error(ErrorKind::corrupt, where, ": ", member, " is missing or of another kind: want ", want);
}

// A member of a member: "settings.adamw.lr". Null: there is none.
const Json* at(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* found = &object;
  for (const std::string_view name : path)
    if (found != nullptr) found = found->find(name);
  return found;
}

Result<double> number_at(const Json& object, std::initializer_list<std::string_view> path, const std::string& where) {
  const Json* found = at(object, path);
  if (found == nullptr || !found->is_number()) return fault(where, *(path.end() - 1), "a number");
  return found->as_number();
}

Result<std::vector<double>> numbers(const Json* array, std::string_view name, const std::string& where) {
  if (array == nullptr || !array->is_array()) return fault(where, name, "an array of numbers");
  std::vector<double> all;
  for (const Json& one : array->as_array()) {
    if (!one.is_number()) return fault(where, name, "an array of numbers");
    all.push_back(one.as_number());
  }
  return all;
}

Result<TrainSequence> read_sequence(const Json& golden_case, size_t row, const std::string& where) {
  const auto line = [&](const char* name) -> const Json* {
    const Json* rows = golden_case.find(name);
    const bool has = rows != nullptr && rows->is_array() && row < rows->as_array().size();
    return has ? &rows->as_array()[row] : nullptr;
  };
  TRY(const std::vector<double> tokens, numbers(line("input_ids"), "input_ids", where));
  TRY(const std::vector<double> mask, numbers(line("answer_mask"), "answer_mask", where));
  if (mask.size() != tokens.size()) return fault(where, "answer_mask", "one number for each token");
  const auto last = std::find(mask.rbegin(), mask.rend(), 1.0);
  auto length = static_cast<size_t>(mask.rend() - last);
  if (const Json* given = line("lengths"); given != nullptr && given->is_integer())
    length = std::clamp<size_t>(static_cast<size_t>(std::max<int64_t>(given->as_integer(), 0)), length, tokens.size());
  if (length < 2) return fault(where, "answer_mask", "a token behind the first whose loss counts");
  TrainSequence sequence;
  for (size_t i = 0; i < length; ++i) {
    sequence.tokens.push_back(static_cast<int32_t>(tokens[i]));
    sequence.is_target.push_back(mask[i] == 1.0 ? 1 : 0);
  }
  if (sequence.targets() == 0) return fault(where, "answer_mask", "a token behind the first whose loss counts");
  return sequence;
}

Status read_losses(const Json& golden_case, const std::string& where, TrainingRun& run) {
  TRY(run.losses, numbers(at(golden_case, {"results", run.name, "losses"}), "losses", where));
  TRY(run.loss_after, number_at(golden_case, {"results", run.name, "loss_after"}, where));
  if (run.rates.size() != run.losses.size()) return fault(where, "lr", "a rate for each loss");
  return {};
}

Result<OptimizerOptions> read_adam(const Json& golden_case, const std::string& where) {
  OptimizerOptions options;
  TRY(const std::vector<double> betas, numbers(at(golden_case, {"settings", "adamw", "betas"}), "betas", where));
  if (betas.size() != 2) return fault(where, "betas", "two numbers");
  options.beta1 = betas[0];
  options.beta2 = betas[1];
  TRY(options.eps, number_at(golden_case, {"settings", "adamw", "eps"}, where));
  TRY(options.weight_decay, number_at(golden_case, {"settings", "adamw", "weight_decay"}, where));
  return options;
}

// results.float32: its rates are listed, and gradients are clipped to a norm of 1.
Status read_scheduled(const Json& golden_case, const std::string& where, TrainingGolden& golden) {
  for (const char* name : {"float32", "float32_accumulated"}) {
    if (at(golden_case, {"results", name}) == nullptr) continue;
    TrainingRun run{.name = name};
    TRY(run.optimizer, read_adam(golden_case, where));
    run.optimizer.clip = 1;
    TRY(run.rates, numbers(at(golden_case, {"results", name, "lr"}), "lr", where));
    run.accumulated = run.name != "float32";
    if (!run.accumulated) run.finals = "final/";
    TRY_STATUS(read_losses(golden_case, where, run));
    golden.runs.push_back(std::move(run));
  }
  return {};
}

// settings.sgd and settings.adamw: one rate for all steps, and no clipping.
Status read_plain(const Json& golden_case, const std::string& where, TrainingGolden& golden) {
  for (const char* name : {"sgd", "adamw"}) {
    if (at(golden_case, {"results", name}) == nullptr) continue;
    TrainingRun run{.name = name};
    run.optimizer.adam = run.name == "adamw";
    if (run.optimizer.adam) TRY_ASSIGN(run.optimizer, read_adam(golden_case, where));
    run.optimizer.clip = 0;
    TRY(const double rate, number_at(golden_case, {"settings", name, "lr"}, where));
    const Json* losses = at(golden_case, {"results", name, "losses"});
    run.rates.assign(losses != nullptr && losses->is_array() ? losses->as_array().size() : 0, rate);
    run.finals = cat(name, "/");
    TRY_STATUS(read_losses(golden_case, where, run));
    golden.runs.push_back(std::move(run));
  }
  return {};
}

}  // namespace

Result<TrainingGolden> read_training(const Json& golden_case, const std::string& where) {
  TrainingGolden golden;
  const Json* rows = golden_case.find("input_ids");
  if (rows == nullptr || !rows->is_array()) return fault(where, "input_ids", "an array of arrays");
  for (size_t row = 0; row < rows->as_array().size(); ++row) {
    TRY(TrainSequence sequence, read_sequence(golden_case, row, where));
    golden.sequences.push_back(std::move(sequence));
  }
  TRY_STATUS(read_scheduled(golden_case, where, golden));
  TRY_STATUS(read_plain(golden_case, where, golden));
  if (golden.sequences.empty() || golden.runs.empty()) return fault(where, "results", "a run of a known optimizer");
  return golden;
}

}  // namespace sluice

#include "engine/session.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One step of the engine; waits for a device or disk that works on its own.
void turn(Engine& engine) {
  if (engine.step() == StepState::in_flight) engine.wait();
}

void take(Answer& answer, const Progress& progress) {
  answer.tokens.insert(answer.tokens.end(), progress.tokens.begin(), progress.tokens.end());
  answer.logits.insert(answer.logits.end(), progress.logits.begin(), progress.logits.end());
  answer.finish = progress.finish;
  answer.prompt_tokens = progress.prompt_tokens;
  answer.reused_tokens = progress.reused_tokens;
  answer.restored_tokens = progress.restored_tokens;
  answer.computed_prompt_tokens = progress.computed_prompt_tokens;
  answer.drafted = progress.drafted;
  answer.accepted = progress.accepted;
  answer.undrafted_steps = progress.undrafted_steps;
}

}  // namespace

Session::~Session() { clear(); }

void Session::clear() {
  for (cancel(); running_;) {
    static_cast<void>(collect());
    if (running_) turn(*engine_);
  }
  if (sequence_ == kNewSequence) return;
  CHECK(engine_->close(sequence_));
  sequence_ = kNewSequence;
}

void Session::abandon() {
  running_.reset();
  sequence_ = kNewSequence;
}

void Session::adopt(SequenceId sequence) {
  if (sequence != sequence_) clear();
  sequence_ = sequence;
}

void Session::cancel() {
  if (running_) engine_->cancel(*running_);
}

Status Session::begin(Request request) {
  if (running_) return error(ErrorKind::invalid, "conversation: an answer is being made: want it to end first");
  request.sequence = sequence_;
  request.keep_sequence = true;
  start_ = answer_start_ = Clock::now();
  TRY(running_, engine_->submit(std::move(request)));
  answer_ = {};
  return {};
}

Result<Progress> Session::collect() {
  CHECK(running_);
  Result<Progress> progress = engine_->collect(*running_);
  if (!progress || progress->finish != Finish::running) running_.reset();
  if (!progress) return progress;
  sequence_ = progress->sequence;
  if (answer_.tokens.empty() && (!progress->tokens.empty() || !running_)) {
    answer_.prompt_seconds = seconds_since(start_);
    answer_start_ = Clock::now();
  }
  take(answer_, *progress);
  if (progress->failure) return *std::move(progress->failure);
  if (!answer_.tokens.empty()) answer_.answer_seconds = seconds_since(answer_start_);
  if (!running_) engine_->keep_state(sequence_);
  return progress;
}

Result<Answer> Session::run(Request request, const TokenSink& sink, const ProgressSink& watch) {
  TRY_STATUS(begin(std::move(request)));
  while (running_) {
    turn(*engine_);
    TRY(const Progress progress, collect());
    const bool wanted = !sink || std::ranges::all_of(progress.tokens, [&](const SampleResult& t) { return sink(t); });
    if (!wanted || (watch && !watch(progress))) cancel();
  }
  return std::exchange(answer_, {});
}

Result<History> Session::history() const {
  if (sequence_ == kNewSequence) return History{};
  return engine_->history(sequence_);
}

Status Session::truncate(size_t tokens) {
  if (sequence_ != kNewSequence) return engine_->truncate(sequence_, tokens);
  if (tokens == 0) return {};
  return error(ErrorKind::invalid, "conversation: has no tokens: cannot keep ", tokens);
}

Status Session::save(const std::string& path) {
  if (sequence_ != kNewSequence) return engine_->save(sequence_, path);
  return error(ErrorKind::invalid, "conversation: has no tokens: nothing to save");
}

Status Session::load(const std::string& path, std::string* note) {
  TRY(const SequenceId loaded, engine_->load(path, note));
  clear();
  sequence_ = loaded;
  return {};
}

}  // namespace sluice

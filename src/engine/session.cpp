#include "engine/session.h"

#include <algorithm>
#include <chrono>

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One turn of the engine; a device or a disk that works by itself is waited for.
void turn(Engine& engine) {
  if (engine.step() == StepState::in_flight) engine.wait();
}

void take(Answer& answer, Progress& progress) {
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
  if (sequence_ == kNewSequence) return;
  CHECK(engine_->close(sequence_));  // idle: run() returns when its request has ended
  sequence_ = kNewSequence;
}

Result<Answer> Session::run(Request request, const TokenSink& sink, const ProgressSink& watch) {
  request.sequence = sequence_;
  request.keep_sequence = true;
  const Clock::time_point start = Clock::now();
  TRY(const RequestId id, engine_->submit(std::move(request)));
  Answer answer;
  Clock::time_point answer_start = start;
  while (answer.finish == Finish::running) {
    turn(*engine_);
    TRY(Progress progress, engine_->collect(id));
    sequence_ = progress.sequence;
    if (answer.tokens.empty() && (!progress.tokens.empty() || progress.finish != Finish::running)) {
      answer.prompt_seconds = seconds_since(start);
      answer_start = Clock::now();
    }
    const bool wanted = !sink || std::ranges::all_of(progress.tokens, [&](const SampleResult& t) { return sink(t); });
    if (!wanted || (watch && !watch(progress))) engine_->cancel(id);
    take(answer, progress);
    if (progress.failure) return *std::move(progress.failure);
  }
  if (!answer.tokens.empty()) answer.answer_seconds = seconds_since(answer_start);
  engine_->keep_state(sequence_);
  return answer;
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

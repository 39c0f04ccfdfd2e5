// Kept sequences: fork, truncate, close, save, load.
#include <utility>

#include "engine/engine_impl.h"

namespace sluice {

Result<SequenceId> EngineImpl::fork(SequenceId sequence) {
  TRY(const OpenSequence* from, board_.idle_sequence(sequence));
  return board_.open(*from);  // shares its pages
}

Status EngineImpl::truncate(SequenceId sequence, size_t tokens) {
  TRY(OpenSequence * open, board_.idle_sequence(sequence));
  const size_t length = open->text.history.size();
  if (tokens > length)
    return error(ErrorKind::invalid, "sequence ", sequence, ": has ", length, " tokens: cannot keep ", tokens);
  // At once, so that the pages behind are freed.
  cache_.resume(open->text, static_cast<uint32_t>(tokens));
  open->text.truncate(tokens);
  std::erase_if(open->boundaries, [&](uint32_t boundary) { return boundary > tokens; });
  return {};
}

Status EngineImpl::close(SequenceId sequence) {
  TRY_STATUS(board_.idle_sequence(sequence));
  forget_sequence(sequence);
  return {};
}

Result<History> EngineImpl::history(SequenceId sequence) const {
  const auto found = board_.sequences.find(sequence);
  if (found != board_.sequences.end()) return found->second.text.history;
  return error(ErrorKind::not_found, "sequence ", sequence, ": is not open: want one that was kept");
}

Status EngineImpl::save(SequenceId sequence, const std::string& path) {
  TRY(const OpenSequence* open, board_.idle_sequence(sequence));
  return files_.save(open->text, path);
}

Result<bool> EngineImpl::save_without_waiting(SequenceId sequence, const std::string& path) {
  if (!files_.saving()) {
    TRY(const OpenSequence* open, board_.idle_sequence(sequence));
    TRY_STATUS(files_.begin(sequence, open->text));
  } else if (files_.saving() != sequence) {
    return error(ErrorKind::invalid, "sequence ", sequence, ": cannot be saved while sequence ", *files_.saving(),
                 " is: want that to end first");
  }
  while (!files_.has_all()) {
    const std::optional<Completion> completion = placed_.runner->poll();
    if (!completion) return false;
    complete(*completion);
  }
  TRY_STATUS(files_.end(path));
  return true;
}

Result<SequenceId> EngineImpl::load(const std::string& path, std::string* note) {
  note->clear();
  TRY(CachedHistory text, files_.load(path, *note));
  return board_.open({.text = std::move(text), .keep = true});
}

void EngineImpl::keep_state(SequenceId sequence) {
  const Result<OpenSequence*> open = board_.idle_sequence(sequence);
  if (states_ && open) states_->keep((*open)->text, std::exchange((*open)->boundaries, {}));
}

}  // namespace sluice

// Kept sequences: fork, truncate, close, save, load.
#include "engine/engine_impl.h"

namespace sluice {

Result<SequenceId> EngineImpl::fork(SequenceId sequence) {
  TRY(const OpenSequence* from, idle_sequence(sequence));
  OpenSequence copy = *from;  // shares its pages
  copy.last_used = ++clock_;
  board_.sequences.emplace(++last_id_, std::move(copy));
  return last_id_;
}

Status EngineImpl::truncate(SequenceId sequence, size_t tokens) {
  TRY(OpenSequence * open, idle_sequence(sequence));
  History& history = open->text.history;
  if (tokens > history.size())
    return error(ErrorKind::invalid, "sequence ", sequence, ": has ", history.size(), " tokens: cannot keep ", tokens);
  // Now, so that what lies behind gives its pages back.
  cache_.resume(open->text, static_cast<uint32_t>(tokens));
  history.resize(tokens);
  std::erase_if(open->boundaries, [&](uint32_t boundary) { return boundary > tokens; });
  return {};
}

Status EngineImpl::close(SequenceId sequence) {
  TRY_STATUS(idle_sequence(sequence));
  forget_sequence(sequence);
  return {};
}

Result<History> EngineImpl::history(SequenceId sequence) const {
  const auto found = board_.sequences.find(sequence);
  if (found != board_.sequences.end()) return found->second.text.history;
  return error(ErrorKind::not_found, "sequence ", sequence, ": is not open: want one that was kept");
}

// It takes a while: the model's files are read whole, unless somebody remembers them.
const std::string& EngineImpl::digest() {
  if (digest_.empty()) digest_ = model_->digest();
  return digest_;
}

SavedSequence EngineImpl::saved_sequence(const OpenSequence& open) {
  const uint32_t length = cache_.whole_blocks(open.text);
  return {.digest = digest(),
          .numerics_id = placed_.numerics_id,
          .cached = length,
          .groups = saved_pages(0, length),
          .history = open.text.history};
}

Status EngineImpl::save(SequenceId sequence, const std::string& path) {
  TRY(const OpenSequence* open, idle_sequence(sequence));
  TRY(AtomicFile file, AtomicFile::create(path));
  SaveWriter writer(file);
  const SavedSequence saved = saved_sequence(*open);
  TRY_STATUS(writer.begin(saved));
  TRY_STATUS(write_pages(writer, open->text.tables, saved.groups));
  TRY_STATUS(writer.finish());
  return file.commit();
}

// The device copies what the pages hold now, before any step that is started later.
Status EngineImpl::begin_saving(SequenceId sequence) {
  TRY(const OpenSequence* open, idle_sequence(sequence));
  Saving saving{.sequence = sequence, .saved = saved_sequence(*open)};
  uint64_t bytes = 0;
  for (const SavedPages& group : saving.saved.groups) bytes += group.bytes();
  TRY(saving.reservation, budget_->reserve(Domain::host, Purpose::staging, bytes));
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    const SavedPages& group = saving.saved.groups[g];
    for (uint32_t i = group.first; i < group.first + group.count; ++i) {
      const PageId page = open->text.tables[g].page(i);
      std::vector<std::byte>& into = saving.pages.emplace_back(static_cast<size_t>(group.page_bytes));
      saving.under_way.push_back(placed_.runner->read_page(g, page, into));
    }
  }
  saving_ = std::move(saving);
  return {};
}

// False: it is of something else.
bool EngineImpl::take_saved_page(const Completion& completion) {
  if (!saving_ || std::erase(saving_->under_way, completion.ticket) == 0) return false;
  if (saving_->status) saving_->status = completion.status;
  return true;
}

Result<bool> EngineImpl::save_without_waiting(SequenceId sequence, const std::string& path) {
  if (!saving_) {
    TRY_STATUS(begin_saving(sequence));
  } else if (saving_->sequence != sequence) {
    return error(ErrorKind::invalid, "sequence ", sequence, ": cannot be saved while sequence ", saving_->sequence,
                 " is: want that to end first");
  }
  while (!saving_->under_way.empty()) {
    const std::optional<Completion> completion = placed_.runner->poll();
    if (!completion) return false;
    complete(*completion);
  }
  const Saving saving = *std::exchange(saving_, std::nullopt);
  TRY_STATUS(saving.status);
  TRY(AtomicFile file, AtomicFile::create(path));
  SaveWriter writer(file);
  TRY_STATUS(writer.begin(saving.saved));
  for (const std::vector<std::byte>& page : saving.pages) TRY_STATUS(writer.write(page));
  TRY_STATUS(writer.finish());
  TRY_STATUS(file.commit());
  return true;
}

Status EngineImpl::check_saved(const SavedSequence& saved, const std::string& path) {
  if (saved.digest != digest()) return error(ErrorKind::invalid, path, ": was saved with another model");
  if (saved.begins > 0)
    return error(ErrorKind::invalid, path, ": begins at token ", saved.begins, ": want a file that /save wrote");
  if (saved.history.size() > context()) {
    return error(ErrorKind::invalid, path, ": has ", saved.history.size(), " tokens: want at most the context of ",
                 context());
  }
  for (size_t i = 0; i < saved.history.size(); ++i) {
    const int32_t token = saved.history[i].token;
    if (token >= 0 && static_cast<uint32_t>(token) < model_->vocabulary) continue;
    return error(ErrorKind::corrupt, path, ": token ", i, " is ", token, ": want 0 to ", model_->vocabulary - 1);
  }
  if (saved.numerics_id == placed_.numerics_id && saved.groups != saved_pages(0, saved.cached))
    return error(ErrorKind::corrupt, path, ": its pages are not those of ", saved.cached, " positions of this model");
  return {};
}

Result<SequenceId> EngineImpl::load(const std::string& path, std::string* note) {
  note->clear();
  TRY(const std::unique_ptr<FileSource> source, FileSource::open(path));
  TRY(const SaveReader reader, SaveReader::open(*source, path));
  const SavedSequence& saved = reader.saved();
  TRY_STATUS(check_saved(saved, path));
  OpenSequence open{.text = cache_.empty(), .keep = true, .last_used = ++clock_};
  open.text.history = saved.history;
  if (saved.numerics_id != placed_.numerics_id) {
    *note = cat(path, ": was computed by ", printable(saved.numerics_id), " and this is ", placed_.numerics_id,
                ": its tokens are run again");
  } else if (!take_pages(saved.cached, open.text)) {
    *note = cat(path, ": there is no room for its pages now: its tokens are run again");
  } else {
    TRY_STATUS(read_pages(reader, open.text));
  }
  board_.sequences.emplace(++last_id_, std::move(open));
  return last_id_;
}

}  // namespace sluice

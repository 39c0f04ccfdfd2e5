// Kept sequences: fork, truncate, close, save, load.
#include "base/threads.h"
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
  if (tokens > history.size()) {
    return error(ErrorKind::invalid, "sequence ", sequence, ": has ", history.size(), " tokens: cannot keep ", tokens);
  }
  // Now, so that what lies behind gives its pages back.
  cache_.resume(open->text, static_cast<uint32_t>(tokens));
  history.resize(tokens);
  return {};
}

Status EngineImpl::close(SequenceId sequence) {
  TRY_STATUS(idle_sequence(sequence));
  board_.sequences.erase(sequence);
  return {};
}

Result<History> EngineImpl::history(SequenceId sequence) const {
  const auto found = board_.sequences.find(sequence);
  if (found != board_.sequences.end()) return found->second.text.history;
  return error(ErrorKind::not_found, "sequence ", sequence, ": is not open: want one that was kept");
}

// Steps under way end here too.
Status EngineImpl::wait(Ticket ticket) {
  for (;;) {
    const std::optional<Completion> completion = placed_.runner->poll();
    if (!completion) {
      wait_a_moment();
    } else if (completion->ticket == ticket) {
      return completion->status;
    } else {
      complete(*completion);
    }
  }
}

Status EngineImpl::save(SequenceId sequence, const std::string& path) {
  TRY(const OpenSequence* open, idle_sequence(sequence));
  TRY(AtomicFile file, AtomicFile::create(path));
  SaveWriter writer(file);
  const uint32_t length = cache_.whole_blocks(open->text);
  SavedSequence saved{.digest = model_->digest(),
                      .numerics_id = placed_.numerics_id,
                      .cached = length,
                      .groups = saved_pages(length),
                      .history = open->text.history};
  TRY_STATUS(writer.begin(saved));
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    std::vector<std::byte> page(static_cast<size_t>(placed_.page_bytes[g]));
    for (uint32_t i = 0; i < saved.groups[g].count; ++i) {
      const PageId from = open->text.tables[g].page(saved.groups[g].first + i);
      TRY_STATUS(wait(placed_.runner->read_page(g, from, page)));
      TRY_STATUS(writer.write(page));
    }
  }
  TRY_STATUS(writer.finish());
  return file.commit();
}

// The pages that a sequence of `length` positions needs to go on.
std::vector<SavedPages> EngineImpl::saved_pages(uint32_t length) const {
  std::vector<SavedPages> pages;
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    const PageRange range = pages_at(cache_.group(g), length);
    pages.push_back({placed_.page_bytes[g], range.first, range.end - range.first});
  }
  return pages;
}

Status EngineImpl::check_saved(const SavedSequence& saved, const std::string& path) const {
  if (saved.digest != model_->digest()) {
    return error(ErrorKind::invalid, path, ": was saved with another model");
  }
  if (saved.history.size() > context()) {
    return error(ErrorKind::invalid, path, ": has ", saved.history.size(), " tokens: want at most the context of ",
                 context());
  }
  for (size_t i = 0; i < saved.history.size(); ++i) {
    const int32_t token = saved.history[i].token;
    if (token >= 0 && static_cast<uint32_t>(token) < model_->vocabulary) continue;
    return error(ErrorKind::corrupt, path, ": token ", i, " is ", token, ": want 0 to ", model_->vocabulary - 1);
  }
  if (saved.numerics_id == placed_.numerics_id && saved.groups != saved_pages(saved.cached)) {
    return error(ErrorKind::corrupt, path, ": its pages are not those of ", saved.cached, " positions of this model");
  }
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
  } else if (!take_pages(saved, open.text)) {
    *note = cat(path, ": there is no room for its pages now: its tokens are run again");
  } else {
    TRY_STATUS(read_pages(reader, open.text));
  }
  board_.sequences.emplace(++last_id_, std::move(open));
  return last_id_;
}

// False when running requests hold too many.
bool EngineImpl::take_pages(const SavedSequence& saved, CachedHistory& text) {
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    PageTable& table = text.tables[g];
    table.drop_before(saved.groups[g].first);
    while (table.end() < saved.groups[g].first + saved.groups[g].count) {
      if (table.grow() || admission_.reclaim()) continue;
      cache_.drop(text);
      return false;
    }
  }
  cache_.restored(text, saved.cached);
  return true;
}

Status EngineImpl::read_pages(const SaveReader& reader, CachedHistory& text) {
  for (uint32_t g = 0; g < cache_.groups(); ++g) {
    const PageTable& table = text.tables[g];
    std::vector<std::byte> page(static_cast<size_t>(placed_.page_bytes[g]));
    for (uint32_t i = table.first(); i < table.end(); ++i) {
      TRY_STATUS(reader.read_page(g, i - table.first(), page));
      TRY_STATUS(wait(placed_.runner->write_page(g, table.page(i), page)));
    }
  }
  return {};
}

}  // namespace sluice

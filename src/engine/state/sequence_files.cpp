#include "engine/state/sequence_files.h"

#include <utility>

namespace sluice {

SavedSequence SequenceFiles::saved_sequence(const CachedHistory& text) {
  const uint32_t length = cache_->whole_blocks(text);
  return {.digest = by_.digest_with(text.adapters),
          .numerics_id = by_.numerics_id,
          .cached = length,
          .groups = pages_->pages(0, length),
          .history = text.history};
}

Status SequenceFiles::save(const CachedHistory& text, const std::string& path) {
  TRY(AtomicFile file, AtomicFile::create(path));
  SaveWriter writer(file);
  const SavedSequence saved = saved_sequence(text);
  TRY_STATUS(writer.begin(saved));
  TRY_STATUS(pages_->write(writer, text.tables, saved.groups));
  TRY_STATUS(writer.finish());
  return file.commit();
}

// The device copies the pages before any step that is started later, so the file has the sequence as it is now.
Status SequenceFiles::begin(uint64_t sequence, const CachedHistory& text) {
  Saving saving{.sequence = sequence, .saved = saved_sequence(text)};
  uint64_t bytes = 0;
  for (const SavedPages& group : saving.saved.groups) bytes += group.bytes();
  TRY(saving.reservation, budget_->reserve(Domain::host, Purpose::staging, bytes));
  for (uint32_t g = 0; g < cache_->groups(); ++g) {
    const SavedPages& group = saving.saved.groups[g];
    for (uint32_t i = group.first; i < group.first + group.count; ++i) {
      std::vector<std::byte>& into = saving.pages.emplace_back(static_cast<size_t>(group.page_bytes));
      saving.under_way.push_back(runner_->read_page(g, text.tables[g].page(i), into));
    }
  }
  saving_ = std::move(saving);
  return {};
}

bool SequenceFiles::take(const Completion& completion) {
  if (!saving_ || std::erase(saving_->under_way, completion.ticket) == 0) return false;
  if (saving_->status) saving_->status = completion.status;
  return true;
}

Status SequenceFiles::end(const std::string& path) {
  const Saving saving = *std::exchange(saving_, std::nullopt);
  TRY_STATUS(saving.status);
  TRY(AtomicFile file, AtomicFile::create(path));
  SaveWriter writer(file);
  TRY_STATUS(writer.begin(saving.saved));
  for (const std::vector<std::byte>& page : saving.pages) TRY_STATUS(writer.write(page));
  TRY_STATUS(writer.finish());
  return file.commit();
}

// The adapters that the file's pages were computed with.
Result<std::string> SequenceFiles::adapters_of(const SavedSequence& saved, const std::string& path) const {
  const std::string model = by_.digest();
  if (saved.digest == model) return std::string();
  const std::string with = model + ComputedBy::kAdaptersMark;
  if (starts_with(saved.digest, with)) return saved.digest.substr(with.size());
  return error(ErrorKind::invalid, path, ": was saved with another model");
}

Status SequenceFiles::check(const SavedSequence& saved, const std::string& path) {
  if (saved.begins > 0)
    return error(ErrorKind::invalid, path, ": begins at token ", saved.begins, ": want a file that /save wrote");
  if (saved.history.size() > by_.context) {
    return error(ErrorKind::invalid, path, ": has ", saved.history.size(), " tokens: want at most the context of ",
                 by_.context);
  }
  for (size_t i = 0; i < saved.history.size(); ++i) {
    const int32_t token = saved.history[i].token;
    if (token >= 0 && static_cast<uint32_t>(token) < by_.vocabulary) continue;
    return error(ErrorKind::corrupt, path, ": token ", i, " is ", token, ": want 0 to ", by_.vocabulary - 1);
  }
  if (saved.numerics_id == by_.numerics_id && saved.groups != pages_->pages(0, saved.cached))
    return error(ErrorKind::corrupt, path, ": its pages are not those of ", saved.cached, " positions of this model");
  return {};
}

Result<CachedHistory> SequenceFiles::load(const std::string& path, std::string& note) {
  TRY(const std::unique_ptr<FileSource> source, FileSource::open(path));
  TRY(const SaveReader reader, SaveReader::open(*source, path));
  const SavedSequence& saved = reader.saved();
  TRY(const std::string adapters, adapters_of(saved, path));
  TRY_STATUS(check(saved, path));
  CachedHistory text = cache_->empty();
  text.history = saved.history;
  text.adapters = adapters;
  if (saved.numerics_id != by_.numerics_id) {
    note = cat(path, ": was computed by ", printable(saved.numerics_id), " and this is ", by_.numerics_id,
               ": its tokens are run again");
  } else if (!pages_->take(saved.cached, text)) {
    note = cat(path, ": there is no room for its pages now: its tokens are run again");
  } else {
    TRY_STATUS(pages_->read(reader, text));
  }
  return text;
}

}  // namespace sluice

#include "engine/state/state_store.h"

#include <algorithm>

#include "base/files/kept_files.h"
#include "base/sha256.h"

namespace sluice {
namespace {

constexpr std::string_view kSuffix = ".state", kAside = ".state.damaged", kPart = ".state.part-";
constexpr size_t kNameDigits = 64;
constexpr int32_t kIsMedia = 256;   // added to a class in the hash of a name: the row's content follows the block
constexpr size_t kMostAside = 8;    // of damaged files
constexpr size_t kMostParts = 128;  // files of a state, all open at once
constexpr int64_t kPartLife = int64_t{3600} * 1000000000;  // ns; nobody still writes to an older part

void add_text(Sha256& hash, std::string_view text) {
  hash.add(cat(text.size(), ' '));
  hash.add(text);
}

TokenClass class_in(const StateIdentity& identity, const HistoryToken& token) {
  return identity.any_class ? TokenClass::prompt : token.token_class;
}

// Whether `saved` has the content that the file's name promises.
Status check_content(const StateIdentity& identity, const History& history, uint32_t length, const SavedSequence& saved,
                     const std::string& path) {
  const auto differs = [&](const char* what) {
    return error(ErrorKind::corrupt, path, ": its ", what, " is not what its name says");
  };
  if (saved.digest != identity.digest || saved.numerics_id != identity.numerics_id) return differs("model or device");
  if (saved.cached != length || saved.begins >= length || saved.begins + saved.history.size() != length)
    return differs("length");
  for (size_t i = 0; i < saved.history.size(); ++i) {
    const HistoryToken &want = history[saved.begins + i], &found = saved.history[i];
    if (want.token != found.token || want.media != found.media || class_in(identity, want) != class_in(identity, found))
      return differs("history");
  }
  return saved.groups == identity.pages(saved.begins, length) ? Status() : Status(differs("layout"));
}

// A file of the store. Other files in the folder are left alone.
struct KeptFile {
  std::string path;
  FileFacts facts;
  bool aside = false;
};

bool is_name(std::string_view name) {
  return name.size() > kNameDigits && name.substr(0, kNameDigits).find_first_not_of("0123456789abcdef") == name.npos;
}

std::vector<KeptFile> kept_files(const std::string& folder) {
  std::vector<KeptFile> files;
  const Result<std::vector<std::string>> names = list_directory(folder);
  if (!names) return files;
  const int64_t now = system_clock_ns();
  for (const std::string& name : *names) {
    const std::string_view ending = is_name(name) ? std::string_view(name).substr(kNameDigits) : std::string_view();
    const bool part = starts_with(ending, kPart);
    if (!part && ending != kSuffix && ending != kAside) continue;
    const std::string path = join_path(folder, name);
    const std::optional<FileFacts> facts = file_facts(path);
    if (!facts) continue;
    if (part) {
      if (now - facts->used_ns > kPartLife) remove_file(path);
      continue;
    }
    files.push_back({path, *facts, ending == kAside});
  }
  std::sort(files.begin(), files.end(),
            [](const KeptFile& a, const KeptFile& b) { return a.facts.used_ns < b.facts.used_ns; });
  return files;
}

}  // namespace

uint64_t StoredState::bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.source->size();
  return bytes;
}

StateStore::StateStore(std::string folder, uint64_t limit_bytes) : folder_(std::move(folder)), limit_(limit_bytes) {
  Status usable = make_own_folder(folder_);
  if (usable) usable = check_own_folder(folder_);
  if (usable) {
    evict();  // the limit may be lower than it was
  } else {
    keeps_ = finds_ = false;
    note(usable.error().text + " (no states are kept)");
  }
}

void StateStore::note(std::string sentence) {
  const MutexLock lock(noting_);
  notes_.push_back(std::move(sentence));
}

std::vector<std::string> StateStore::take_notes() {
  const MutexLock lock(noting_);
  return std::exchange(notes_, {});
}

// The paths of the states at 64, 128, ... up to `most` positions.
std::vector<std::string> StateStore::paths(const StateIdentity& identity, const History& history, uint32_t most) const {
  Sha256 hash;
  add_text(hash, "sluice state 3");
  add_text(hash, identity.digest);
  add_text(hash, identity.numerics_id);
  std::vector<std::string> paths;
  paths.reserve(most / kCut);
  for (uint32_t first = 0; first + kCut <= most; first += kCut) {
    std::array<int32_t, size_t{2} * kCut> block{};
    for (uint32_t i = 0; i < kCut; ++i) {
      block[i] = history[first + i].token;
      const bool is_media = history[first + i].is_media();
      block[kCut + i] = static_cast<int32_t>(class_in(identity, history[first + i])) + (is_media ? kIsMedia : 0);
    }
    hash.add(std::as_bytes(std::span(block)));
    for (uint32_t i = first; i < first + kCut; ++i)
      if (history[i].is_media()) hash.add(std::as_bytes(std::span(&history[i].media, 1)));
    Sha256 so_far = hash;
    paths.push_back(join_path(folder_, so_far.finish_hex() + std::string(kSuffix)));
  }
  return paths;
}

StoredState StateStore::find(const StateIdentity& identity, const History& history, uint32_t least, uint32_t most) {
  if (!finds_) return {};
  const std::vector<std::string> names = paths(identity, history, most);
  for (auto length = static_cast<uint32_t>(names.size() * kCut); length > least; length -= kCut) {
    if (!file_facts(names[length / kCut - 1])) continue;
    StoredState found = open(identity, history, names, length);
    if (found.length == 0) continue;
    // Earlier files of the chain get newer times, so that they are evicted last.
    int64_t used = system_clock_ns();
    for (auto part = found.parts.rbegin(); part != found.parts.rend(); ++part) touch_file(part->path, used--);
    return found;
  }
  return {};
}

// All files of the state at `length`; none if one is missing or wrong.
StoredState StateStore::open(const StateIdentity& identity, const History& history,
                             const std::vector<std::string>& paths, uint32_t length) {
  StoredState state{.length = length, .parts = {}};
  for (uint32_t end = length; end > 0; end = state.parts.back().reader.saved().begins) {
    const std::string& path = paths[end / kCut - 1];
    Result<std::unique_ptr<FileSource>> source = FileSource::open(path);
    if (!source) {
      if (source.error().kind != ErrorKind::not_found) note(source.error().text);
      return {};
    }
    Result<SaveReader> reader = SaveReader::open(**source, path);
    const Status right = reader ? check_content(identity, history, end, reader->saved(), path) : Status(reader.error());
    if (!right) {
      set_aside(path, right.error());
      return {};
    }
    state.parts.push_back({path, *std::move(source), *std::move(reader)});
  }
  return state;
}

void StateStore::set_aside(const std::string& path, const Error& why) {
  const std::string aside = cat(std::string_view(path).substr(0, path.size() - kSuffix.size()), kAside);
  const Status renamed = rename_file(path, aside);
  note(cat(why.text, " (", renamed ? cat("now ", file_name(aside)) : renamed.error().text,
           "; what it held is computed again)"));
  std::vector<KeptFile> files = kept_files(folder_);
  std::erase_if(files, [](const KeptFile& file) { return !file.aside; });
  for (size_t i = 0; i + kMostAside < files.size(); ++i) remove_file(files[i].path);
}

void StateStore::keep(const StateIdentity& identity, const History& history, uint32_t length, const PageWriter& pages) {
  if (!keeps_ || length == 0) return;
  const StoredState before = find(identity, history, 0, length);
  if (before.length == length) return;
  const uint32_t begins = before.parts.size() < kMostParts ? before.length : 0;
  const SavedSequence saved{.digest = identity.digest,
                            .numerics_id = identity.numerics_id,
                            .begins = begins,
                            .cached = length,
                            .groups = identity.pages(begins, length),
                            .history = History(history.begin() + begins, history.begin() + length)};
  const uint64_t bytes = saved.file_bytes() + (begins > 0 ? before.bytes() : 0);
  if (bytes > limit_) {
    if (!std::exchange(said_large_, true)) {
      note(cat(folder_, ": a state of ", format_bytes(bytes), " is not kept: want at most ", format_bytes(limit_),
               " (--state-dir-size)"));
    }
    return;
  }
  const Status written = write(saved, paths(identity, history, length).back(), pages);
  if (!written) {
    keeps_ = false;
    note(written.error().text + " (no more states are kept)");
  }
  evict();
}

Status StateStore::write(const SavedSequence& saved, const std::string& path, const PageWriter& pages) {
  TRY(AtomicFile file, AtomicFile::create(path, FileAccess::owner_only));
  SaveWriter writer(file);
  TRY_STATUS(writer.begin(saved));
  TRY_STATUS(pages(writer, saved.begins));
  TRY_STATUS(writer.finish());
  return file.commit();
}

void StateStore::evict() {
  const std::vector<KeptFile> files = kept_files(folder_);
  uint64_t bytes = 0;
  for (const KeptFile& file : files) bytes += file.facts.bytes;
  for (const KeptFile& file : files) {
    if (bytes <= limit_) return;
    remove_file(file.path);
    bytes -= file.facts.bytes;
  }
}

}  // namespace sluice

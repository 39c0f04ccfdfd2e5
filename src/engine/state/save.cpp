#include "engine/state/save.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/limits.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written as memory lies");

constexpr char kMagic[9] = "SLUICESQ";
constexpr uint32_t kVersion = 3, kMediaVersion = 4;
constexpr uint64_t kTokenBytes = 5;
constexpr size_t kPiece = size_t{1} << 17;  // bytes: small enough that the checksum finds them in the processor's cache

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

CheckedSize page_bytes_of(const SavedSequence& saved, size_t groups) {
  CheckedSize bytes = 0;
  for (size_t g = 0; g < groups; ++g) bytes += CheckedSize(saved.groups[g].page_bytes) * saved.groups[g].count;
  return bytes;
}

std::vector<SavedMedia> media_runs(const History& history) {
  std::vector<SavedMedia> runs;
  for (uint32_t i = 0; i < history.size(); ++i) {
    const MediaRow& media = history[i].media;
    if (!history[i].is_media()) continue;
    const bool goes_on = !runs.empty() && runs.back().first + runs.back().count == i &&
                         runs.back().content == media.content && runs.back().shape == media.shape &&
                         runs.back().row + runs.back().count == media.row;
    if (goes_on)
      ++runs.back().count;
    else
      runs.push_back({.first = i, .count = 1, .row = media.row, .content = media.content, .shape = media.shape});
  }
  return runs;
}

uint64_t media_bytes(uint64_t runs) { return runs == 0 ? 0 : sizeof runs + runs * sizeof(SavedMedia); }

// Bytes of the checksums at the end of the file.
uint64_t sums_bytes(size_t groups) { return (groups + 1) * kChecksumBytes; }

}  // namespace

uint64_t SavedSequence::file_bytes() const {
  uint64_t bytes = sizeof(SavedLengths) + digest.size() + numerics_id.size() + history.size() * kTokenBytes;
  bytes += media_bytes(media_runs(history).size());
  for (const SavedPages& pages : groups) bytes += sizeof pages + pages.bytes();
  return bytes + sums_bytes(groups.size());
}

Status SaveWriter::write_header(std::span<const std::byte> bytes) {
  header_.add(bytes);
  return sink_->write(bytes);
}

Status SaveWriter::begin(const SavedSequence& saved) {
  const std::vector<SavedMedia> media = media_runs(saved.history);
  SavedLengths lengths{.magic = {},
                       .version = media.empty() ? kVersion : kMediaVersion,
                       .groups = static_cast<uint32_t>(saved.groups.size()),
                       .tokens = saved.begins + saved.history.size(),
                       .cached = saved.cached,
                       .begins = saved.begins,
                       .digest_bytes = static_cast<uint32_t>(saved.digest.size()),
                       .numerics_bytes = static_cast<uint32_t>(saved.numerics_id.size())};
  std::memcpy(lengths.magic, kMagic, sizeof lengths.magic);
  TRY_STATUS(write_header(bytes_of(lengths)));
  TRY_STATUS(write_header(std::as_bytes(std::span(saved.digest))));
  TRY_STATUS(write_header(std::as_bytes(std::span(saved.numerics_id))));
  TRY_STATUS(write_header(std::as_bytes(std::span(saved.groups))));
  if (!media.empty()) {
    TRY_STATUS(write_header(bytes_of(uint64_t{media.size()})));
    TRY_STATUS(write_header(std::as_bytes(std::span(media))));
  }
  std::vector<int32_t> ids;
  std::vector<uint8_t> classes;
  ids.reserve(saved.history.size());
  classes.reserve(saved.history.size());
  for (const HistoryToken& token : saved.history) {
    ids.push_back(token.token);
    classes.push_back(static_cast<uint8_t>(token.token_class));
  }
  left_.reserve(saved.groups.size());
  for (const SavedPages& pages : saved.groups) left_.push_back(pages.bytes());
  TRY_STATUS(write_header(std::as_bytes(std::span(ids))));
  return write_header(std::as_bytes(std::span(classes)));
}

void SaveWriter::close_groups() {
  while (sums_.size() < left_.size() && left_[sums_.size()] == 0) {
    sums_.push_back(group_.value());
    group_.restart();
  }
}

Status SaveWriter::write(std::span<const std::byte> pages) {
  if (pages.empty()) return {};
  close_groups();
  CHECK(sums_.size() < left_.size() && pages.size() <= left_[sums_.size()]);
  left_[sums_.size()] -= pages.size();
  for (; !pages.empty(); pages = pages.subspan(std::min(kPiece, pages.size()))) {
    const std::span piece = pages.first(std::min(kPiece, pages.size()));
    group_.add(piece);
    TRY_STATUS(sink_->write(piece));
  }
  return {};
}

Status SaveWriter::finish() {
  close_groups();
  CHECK(sums_.size() == left_.size());
  TRY_STATUS(write_header(std::as_bytes(std::span(sums_))));
  return sink_->write(header_.value());
}

Error SaveReader::corrupt(const std::string& found, const std::string& want) const {
  return error(ErrorKind::corrupt, name_, ": ", found, ": want ", want);
}

Error SaveReader::damaged() const {
  return error(ErrorKind::corrupt, name_, ": its bytes do not have their checksum: the file is damaged");
}

Result<SaveReader> SaveReader::open(const ByteSource& source, const std::string& name) {
  SaveReader reader(source, name);
  Checksum sum;
  TRY_STATUS(reader.read_header(sum));
  TRY_STATUS(reader.check_size());
  TRY_STATUS(reader.read_media(sum));
  TRY_STATUS(reader.read_tokens(sum));
  TRY_STATUS(reader.read_sums(sum));
  return reader;
}

Status SaveReader::read(uint64_t offset, std::span<std::byte> into, Checksum& sum) const {
  for (size_t at = 0; at < into.size(); at += kPiece) {
    const std::span piece = into.subspan(at, std::min(kPiece, into.size() - at));
    TRY_STATUS(source_->read_at(offset + at, piece));
    sum.add(piece);
  }
  return {};
}

Status SaveReader::check_lengths(const SavedLengths& lengths) const {
  if (std::memcmp(lengths.magic, kMagic, sizeof lengths.magic) != 0) return corrupt("no saved sequence", kMagic);
  if (lengths.version != kVersion && lengths.version != kMediaVersion)
    return error(ErrorKind::unsupported, name_, ": is of version ", lengths.version, ": want ", kVersion, " or ",
                 kMediaVersion);
  if (lengths.groups > kMaxSavedGroups)
    return corrupt(cat(lengths.groups, " page groups"), cat("at most ", kMaxSavedGroups));
  if (lengths.digest_bytes > kMaxSavedNameBytes || lengths.numerics_bytes > kMaxSavedNameBytes) {
    return corrupt(cat("names of ", lengths.digest_bytes, " and ", lengths.numerics_bytes, " bytes"),
                   cat("at most ", kMaxSavedNameBytes));
  }
  if (lengths.cached > lengths.tokens || lengths.cached % kCut != 0 || lengths.tokens > UINT32_MAX)
    return corrupt(cat(lengths.cached, " of ", lengths.tokens, " tokens computed"), cat("a multiple of ", kCut));
  if (lengths.begins > lengths.cached || lengths.begins % kCut != 0)
    return corrupt(cat("begins at token ", lengths.begins, " of ", lengths.cached), cat("a multiple of ", kCut));
  return {};
}

Status SaveReader::read_header(Checksum& sum) {
  SavedLengths lengths{};
  if (source_->size() < sizeof lengths + sums_bytes(0))
    return corrupt(cat("is ", source_->size(), " bytes"), cat("at least ", sizeof lengths + sums_bytes(0)));
  TRY_STATUS(read(0, std::as_writable_bytes(std::span(&lengths, 1)), sum));
  TRY_STATUS(check_lengths(lengths));
  std::string names(static_cast<size_t>(lengths.digest_bytes + lengths.numerics_bytes), '\0');
  const uint64_t groups_at = sizeof lengths + names.size();
  saved_.groups.resize(static_cast<size_t>(lengths.groups));
  tokens_at_ = groups_at + lengths.groups * sizeof(SavedPages);
  tokens_ = lengths.tokens - lengths.begins;
  const uint64_t least = tokens_at_ + sums_bytes(saved_.groups.size());
  if (source_->size() < least) return corrupt(cat("is ", source_->size(), " bytes"), cat("at least ", least));
  TRY_STATUS(read(sizeof lengths, std::as_writable_bytes(std::span(names)), sum));
  saved_.digest = names.substr(0, static_cast<size_t>(lengths.digest_bytes));
  saved_.numerics_id = names.substr(static_cast<size_t>(lengths.digest_bytes));
  saved_.begins = static_cast<uint32_t>(lengths.begins);
  saved_.cached = static_cast<uint32_t>(lengths.cached);
  TRY_STATUS(read(groups_at, std::as_writable_bytes(std::span(saved_.groups)), sum));
  return lengths.version == kMediaVersion ? read_media_count(sum) : Status();
}

Status SaveReader::read_media_count(Checksum& sum) {
  if (source_->size() - tokens_at_ < sizeof media_ + sums_bytes(saved_.groups.size()))
    return corrupt(cat("is ", source_->size(), " bytes"), "more for a file of this version");
  TRY_STATUS(read(tokens_at_, std::as_writable_bytes(std::span(&media_, 1)), sum));
  if (media_ == 0 || media_ > tokens_)
    return corrupt(cat(media_, " runs of rows of pictures or sounds"), cat("1 to ", tokens_));
  tokens_at_ += media_bytes(media_);
  return {};
}

// Marks the rows of pictures and sounds in the history, before its tokens are read.
Status SaveReader::read_media(Checksum& sum) {
  saved_.history.resize(static_cast<size_t>(tokens_));
  std::vector<SavedMedia> runs(static_cast<size_t>(media_));
  if (runs.empty()) return {};
  TRY_STATUS(read(tokens_at_ - runs.size() * sizeof(SavedMedia), std::as_writable_bytes(std::span(runs)), sum));
  uint64_t end = 0;
  for (const SavedMedia& run : runs) {
    const bool lies =
        run.first < end || run.count == 0 || uint64_t{run.first} + run.count > tokens_ || run.content == MediaDigest{};
    if (lies)
      return corrupt(cat("has ", run.count, " rows of a picture or sound at element ", run.first),
                     cat("some within its ", tokens_));
    end = uint64_t{run.first} + run.count;
    for (uint32_t i = 0; i < run.count; ++i)
      saved_.history[run.first + i].media = {run.content, run.row + i, run.shape};
  }
  return {};
}

Status SaveReader::check_size() const {
  const CheckedSize want = CheckedSize(tokens_at_) + CheckedSize(tokens_) * kTokenBytes +
                           page_bytes_of(saved_, saved_.groups.size()) + sums_bytes(saved_.groups.size());
  if (want.value() == source_->size()) return {};
  return corrupt(cat("is ", source_->size(), " bytes"),
                 want.value() ? cat(*want.value(), " as its header says") : std::string("a header that makes sense"));
}

Status SaveReader::read_tokens(Checksum& sum) {
  const auto tokens = static_cast<size_t>(tokens_);  // checked against the file's size
  std::vector<int32_t> ids(tokens);
  std::vector<uint8_t> classes(tokens);
  TRY_STATUS(read(tokens_at_, std::as_writable_bytes(std::span(ids)), sum));
  TRY_STATUS(read(tokens_at_ + tokens_ * 4, std::as_writable_bytes(std::span(classes)), sum));
  for (size_t i = 0; i < tokens; ++i) {
    if (classes[i] >= kTokenClasses.size())
      return corrupt(cat("token ", i, " has class ", classes[i]), cat("0 to ", kTokenClasses.size() - 1));
    saved_.history[i].token = ids[i];
    saved_.history[i].token_class = static_cast<TokenClass>(classes[i]);
  }
  return {};
}

Status SaveReader::read_sums(Checksum& sum) {
  sums_.resize(saved_.groups.size());
  const uint64_t at = pages_at(saved_.groups.size());
  TRY_STATUS(read(at, std::as_writable_bytes(std::span(sums_)), sum));
  ChecksumValue stored{};
  TRY_STATUS(source_->read_at(at + sums_.size() * kChecksumBytes, stored));
  return stored == sum.value() ? Status() : Status(damaged());
}

// The offset of a group's pages, or of the checksums behind the last group. Cannot overflow: the file is that long.
uint64_t SaveReader::pages_at(size_t group) const {
  return tokens_at_ + tokens_ * kTokenBytes + *page_bytes_of(saved_, group).value();
}

Status SaveReader::read_page(GroupReading& reading, std::span<const std::span<std::byte>> pieces) const {
  const SavedPages& pages = saved_.groups[reading.group];
  CHECK(reading.next < pages.count);
  uint64_t at = pages_at(reading.group) + pages.page_bytes * reading.next;
  for (const std::span<std::byte> piece : pieces) {
    TRY_STATUS(read(at, piece, reading.sum));
    at += piece.size();
  }
  ++reading.next;
  CHECK(at == pages_at(reading.group) + pages.page_bytes * reading.next);
  const bool right = reading.next < pages.count || reading.sum.value() == sums_[reading.group];
  return right ? Status() : Status(damaged());
}

}  // namespace sluice

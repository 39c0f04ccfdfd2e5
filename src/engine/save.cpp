#include "engine/save.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/limits.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written as memory lies");

constexpr char kMagic[9] = "SLUICESQ";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kHashBytes = 32;
constexpr uint64_t kTokenBytes = 5;
constexpr size_t kPiece = size_t{1} << 20;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

CheckedSize page_bytes_of(const SavedSequence& saved, size_t groups) {
  CheckedSize bytes = 0;
  for (size_t g = 0; g < groups; ++g) bytes += CheckedSize(saved.groups[g].page_bytes) * saved.groups[g].count;
  return bytes;
}

}  // namespace

Status SaveWriter::write(std::span<const std::byte> bytes) {
  hash_.add(bytes);
  return sink_->write(bytes);
}

Status SaveWriter::begin(const SavedSequence& saved) {
  SavedLengths lengths{.magic = {},
                       .version = kVersion,
                       .groups = static_cast<uint32_t>(saved.groups.size()),
                       .tokens = saved.history.size(),
                       .cached = saved.cached,
                       .digest_bytes = static_cast<uint32_t>(saved.digest.size()),
                       .numerics_bytes = static_cast<uint32_t>(saved.numerics_id.size())};
  std::memcpy(lengths.magic, kMagic, sizeof lengths.magic);
  TRY_STATUS(write(bytes_of(lengths)));
  TRY_STATUS(write(std::as_bytes(std::span(saved.digest))));
  TRY_STATUS(write(std::as_bytes(std::span(saved.numerics_id))));
  TRY_STATUS(write(std::as_bytes(std::span(saved.groups))));
  std::vector<int32_t> ids;
  std::vector<uint8_t> classes;
  for (const HistoryToken& token : saved.history) {
    ids.push_back(token.token);
    classes.push_back(static_cast<uint8_t>(token.token_class));
  }
  TRY_STATUS(write(std::as_bytes(std::span(ids))));
  return write(std::as_bytes(std::span(classes)));
}

Status SaveWriter::finish() {
  const std::array<uint8_t, kHashBytes> hash = hash_.finish();
  return sink_->write(std::as_bytes(std::span(hash)));
}

Error SaveReader::corrupt(const std::string& found, const std::string& want) const {
  return error(ErrorKind::corrupt, name_, ": ", found, ": want ", want);
}

Result<SaveReader> SaveReader::open(const ByteSource& source, const std::string& name) {
  SaveReader reader(source, name);
  TRY_STATUS(reader.read_header());
  TRY_STATUS(reader.check_size());
  TRY_STATUS(reader.check_hash());
  TRY_STATUS(reader.read_tokens());
  return reader;
}

Status SaveReader::check_lengths(const SavedLengths& lengths) const {
  if (std::memcmp(lengths.magic, kMagic, sizeof lengths.magic) != 0) return corrupt("no saved sequence", kMagic);
  if (lengths.version != kVersion) {
    return error(ErrorKind::unsupported, name_, ": is of version ", lengths.version, ": want ", kVersion);
  }
  if (lengths.groups > kMaxSavedGroups)
    return corrupt(cat(lengths.groups, " page groups"), cat("at most ", kMaxSavedGroups));
  if (lengths.digest_bytes > kMaxSavedNameBytes || lengths.numerics_bytes > kMaxSavedNameBytes) {
    return corrupt(cat("names of ", lengths.digest_bytes, " and ", lengths.numerics_bytes, " bytes"),
                   cat("at most ", kMaxSavedNameBytes));
  }
  if (lengths.cached > lengths.tokens || lengths.cached % kCut != 0 || lengths.tokens > UINT32_MAX) {
    return corrupt(cat(lengths.cached, " of ", lengths.tokens, " tokens computed"), cat("a multiple of ", kCut));
  }
  return {};
}

Status SaveReader::read_header() {
  SavedLengths lengths{};
  if (source_->size() < sizeof lengths + kHashBytes) {
    return corrupt(cat("is ", source_->size(), " bytes"), cat("at least ", sizeof lengths + kHashBytes));
  }
  TRY_STATUS(source_->read_at(0, std::as_writable_bytes(std::span(&lengths, 1))));
  TRY_STATUS(check_lengths(lengths));
  std::string names(static_cast<size_t>(lengths.digest_bytes + lengths.numerics_bytes), '\0');
  const uint64_t groups_at = sizeof lengths + names.size();
  saved_.groups.resize(static_cast<size_t>(lengths.groups));
  tokens_at_ = groups_at + lengths.groups * sizeof(SavedPages);
  tokens_ = lengths.tokens;
  if (source_->size() < tokens_at_ + kHashBytes) {
    return corrupt(cat("is ", source_->size(), " bytes"), cat("at least ", tokens_at_ + kHashBytes));
  }
  TRY_STATUS(source_->read_at(sizeof lengths, std::as_writable_bytes(std::span(names))));
  saved_.digest = names.substr(0, static_cast<size_t>(lengths.digest_bytes));
  saved_.numerics_id = names.substr(static_cast<size_t>(lengths.digest_bytes));
  saved_.cached = static_cast<uint32_t>(lengths.cached);
  return source_->read_at(groups_at, std::as_writable_bytes(std::span(saved_.groups)));
}

Status SaveReader::check_size() const {
  const CheckedSize want = CheckedSize(tokens_at_) + CheckedSize(tokens_) * kTokenBytes +
                           page_bytes_of(saved_, saved_.groups.size()) + kHashBytes;
  if (want.value() == source_->size()) return {};
  return corrupt(cat("is ", source_->size(), " bytes"),
                 want.value() ? cat(*want.value(), " as its header says") : std::string("a header that makes sense"));
}

Status SaveReader::check_hash() const {
  Sha256 hash;
  const uint64_t end = source_->size() - kHashBytes;
  std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(kPiece, end)));
  for (uint64_t at = 0; at < end; at += piece.size()) {
    const std::span part = std::span(piece).first(static_cast<size_t>(std::min<uint64_t>(piece.size(), end - at)));
    TRY_STATUS(source_->read_at(at, part));
    hash.add(part);
  }
  std::array<uint8_t, kHashBytes> stored{};
  TRY_STATUS(source_->read_at(end, std::as_writable_bytes(std::span(stored))));
  if (hash.finish() == stored) return {};
  return error(ErrorKind::corrupt, name_, ": its bytes do not have the checksum at its end: the file is damaged");
}

Status SaveReader::read_tokens() {
  const auto tokens = static_cast<size_t>(tokens_);  // the file is as long as that
  std::vector<int32_t> ids(tokens);
  std::vector<uint8_t> classes(tokens);
  TRY_STATUS(source_->read_at(tokens_at_, std::as_writable_bytes(std::span(ids))));
  TRY_STATUS(source_->read_at(tokens_at_ + tokens_ * 4, std::as_writable_bytes(std::span(classes))));
  for (size_t i = 0; i < tokens; ++i) {
    if (classes[i] >= kTokenClasses) return corrupt(cat("token ", i, " has class ", classes[i]), "0 or 1");
    saved_.history.push_back({ids[i], static_cast<TokenClass>(classes[i])});
  }
  pages_at_ = tokens_at_ + tokens_ * kTokenBytes;
  return {};
}

Status SaveReader::read_page(uint32_t group, uint32_t index, std::span<std::byte> into) const {
  const SavedPages& pages = saved_.groups[group];
  CHECK(index < pages.count && into.size() == pages.page_bytes);
  const uint64_t before = *page_bytes_of(saved_, group).value();  // fits, as the file's size does
  return source_->read_at(pages_at_ + before + index * pages.page_bytes, into);
}

}  // namespace sluice

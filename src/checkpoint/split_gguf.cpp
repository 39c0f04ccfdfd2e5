#include "checkpoint/split_gguf.h"

#include <algorithm>

#include "base/files/file.h"
#include "base/limits.h"
#include "checkpoint/gguf.h"

namespace sluice {

namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

std::string digits(uint32_t number) {
  std::string text = cat(number);
  return std::string(kDigits - std::min(kDigits, text.size()), '0') + text;
}

std::optional<uint32_t> parse_digits(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  return static_cast<uint32_t>(*parse_integer(text));
}

struct SplitKeys {
  uint32_t number = 0;  // from 1
  uint32_t count = 0;
  uint32_t tensors = 0;
};

Result<SplitKeys> read_keys(const GgufMetadata& metadata, const std::string& path) {
  TRY(const uint16_t number, metadata.get_u16(kNumberKey));
  TRY(const uint16_t count, metadata.get_u16(kCountKey));
  TRY(const int32_t tensors, metadata.get_i32(kTensorsKey));
  if (number >= count) {
    return error(ErrorKind::corrupt, path, ": key ", kNumberKey, " is ", number, ": want less than ", kCountKey, ", ",
                 count);
  }
  if (count > kMaxShards)
    return error(ErrorKind::corrupt, path, ": key ", kCountKey, " is ", count, ": want at most ", kMaxShards);
  if (tensors < 0 || static_cast<uint64_t>(tensors) > kMaxTensors)
    return error(ErrorKind::corrupt, path, ": key ", kTensorsKey, " is ", tensors, ": want 0 to ", kMaxTensors);
  return SplitKeys{number + 1u, count, static_cast<uint32_t>(tensors)};
}

// Whether the file is one part of several.
Result<bool> is_part(const GgufMetadata& metadata) {
  if (metadata.find(kCountKey) == nullptr) return false;
  TRY(const uint16_t count, metadata.get_u16(kCountKey));
  return count > 1;
}

// The other parts are found by name, so the name must say what the keys say.
Result<SplitName> name_of_part(const std::string& path, const SplitKeys& keys) {
  const auto name = parse_split_name(path);
  if (name && name->number == keys.number && name->count == keys.count) return *name;
  return error(ErrorKind::invalid, path, ": part ", keys.number, " of ", keys.count,
               " of a split model: want a name that ends in ", SplitName{"", keys.number, keys.count}.path(),
               ", by which the others are found");
}

// "" if there is no id, or if it belongs to a set with another number of parts.
Result<std::string> id_of_set(const GgufMetadata& metadata, uint32_t count) {
  if (metadata.find(kSplitIdKey) == nullptr) return std::string();
  TRY(std::string id, metadata.get_string(kSplitIdKey));
  return starts_with(id, cat(count, '-')) ? id : std::string();
}

// Refuses a mix of two sets. A set that is written over another one leaves such a mix if it is interrupted between two
// renamings.
Status check_set(const GgufMetadata& first, const GgufMetadata& later, const SplitName& name, uint32_t number) {
  TRY(const std::string wanted, id_of_set(first, name.count));
  TRY(const std::string found, id_of_set(later, name.count));
  if (found == wanted) return {};
  return error(ErrorKind::corrupt, name.path(number), ": is of another set than ", file_name(name.path(1)),
               ": want parts that were written together");
}

// A later part must not repeat a key with another value. It has its own data alignment.
Status check_later_keys(const GgufMetadata& first, const GgufMetadata& later, const std::string& path) {
  for (const auto& [name, value] : later.entries()) {
    if (name == kNumberKey || name == kGgufAlignmentKey || name == kSplitIdKey) continue;
    const GgufValue* known = first.find(name);
    if (known != nullptr && *known == value) continue;
    return error(ErrorKind::corrupt, path, ": key ", printable(name),
                 " is not as in the first part: want parts of one model");
  }
  return {};
}

Result<GgufHeader> read_header(const std::string& path) {
  TRY(const auto source, FileSource::open(path));
  return parse_gguf(*source, path);
}

Result<GgufHeader> read_part(const SplitName& name, uint32_t number) {
  const std::string path = name.path(number);
  if (path_kind(path) == PathKind::missing)
    return error(ErrorKind::not_found, path, ": missing: want all ", name.count, " parts of the split model");
  return read_header(path);
}

Status check_tensor_count(const GgufParts& all, uint32_t wanted) {
  size_t found = 0;
  for (const GgufPart& part : all.parts) found += part.tensors.size();
  if (found == wanted) return {};
  return error(ErrorKind::corrupt, all.parts.front().path, ": ", found, " tensors in all parts: want ", wanted,
               ", as key ", kTensorsKey, " says");
}

Result<GgufParts> read_all_parts(const SplitName& name) {
  TRY(GgufHeader first, read_part(name, 1));
  TRY(const SplitKeys keys, read_keys(first.metadata, name.path(1)));
  TRY_STATUS(name_of_part(name.path(1), keys));
  GgufParts all;
  all.metadata = std::move(first.metadata);
  all.parts.push_back({name.path(1), std::move(first.tensors)});
  for (uint32_t number = 2; number <= name.count; ++number) {
    TRY(GgufHeader part, read_part(name, number));
    TRY(const SplitKeys part_keys, read_keys(part.metadata, name.path(number)));
    TRY_STATUS(name_of_part(name.path(number), part_keys));
    TRY_STATUS(check_set(all.metadata, part.metadata, name, number));
    TRY_STATUS(check_later_keys(all.metadata, part.metadata, name.path(number)));
    all.parts.push_back({name.path(number), std::move(part.tensors)});
  }
  TRY_STATUS(check_tensor_count(all, keys.tensors));
  return all;
}

}  // namespace

std::string SplitName::path() const { return cat(prefix, '-', digits(number), kOf, digits(count), kSuffix); }

std::optional<SplitName> parse_split_name(std::string_view path) {
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();
  if (path.size() < kTail) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail);
  const auto number = parse_digits(tail.substr(1, kDigits));
  const auto count = parse_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  SplitName name{std::string(path.substr(0, path.size() - kTail)), *number, *count};
  if (name.path() != path) return std::nullopt;
  return name;
}

std::vector<size_t> split_tensors(const std::vector<uint64_t>& bytes, const SplitLimits& limits) {
  std::vector<size_t> counts = {0};
  uint64_t held = 0;
  for (const uint64_t one : bytes) {
    const bool full = (limits.tensors != 0 && counts.back() == limits.tensors) ||
                      (limits.bytes != 0 && (one > limits.bytes || held > limits.bytes - one));
    if (full && counts.back() != 0) {
      counts.push_back(0);
      held = 0;
    }
    ++counts.back();
    held += one;
  }
  return counts;
}

std::string split_id(size_t parts, const ChecksumValue& digest) { return cat(parts, '-', hex_of(digest)); }

std::vector<GgufMetadata::Entry> split_keys(const SplitName& part, size_t tensors) {
  return {{std::string(kNumberKey), static_cast<uint16_t>(part.number - 1)},
          {std::string(kCountKey), static_cast<uint16_t>(part.count)},
          {std::string(kTensorsKey), static_cast<int32_t>(tensors)},
          {std::string(kSplitIdKey), split_id(part.count, {})}};
}

Result<GgufParts> read_gguf_parts(const std::string& path) {
  TRY(GgufHeader header, read_header(path));
  TRY(const bool split, is_part(header.metadata));
  if (!split) {
    GgufParts whole;
    whole.metadata = std::move(header.metadata);
    whole.parts.push_back({path, std::move(header.tensors)});
    return whole;
  }
  TRY(const SplitKeys keys, read_keys(header.metadata, path));
  TRY(const SplitName name, name_of_part(path, keys));
  return read_all_parts(name);
}

}  // namespace sluice

#include "checkpoint/safetensors.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/json.h"
#include "base/limits.h"

namespace sluice {

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr std::string_view kMetadataName = "__metadata__";

Result<Json> read_header(const ByteSource& source, const std::string& where, uint64_t& data_offset) {
  if (source.size() < kLengthBytes)
    return error(ErrorKind::corrupt, where, ": ", source.size(), " bytes: want a header length of ", kLengthBytes);
  uint64_t length = 0;
  TRY_STATUS(source.read_at(0, std::as_writable_bytes(std::span(&length, 1))));
  const uint64_t most = std::min(kMaxHeaderBytes, source.size() - kLengthBytes);
  if (length > most)
    return error(ErrorKind::corrupt, where, ": the header has ", length, " bytes: want at most ", most);
  std::string text(static_cast<size_t>(length), '\0');
  TRY_STATUS(source.read_at(kLengthBytes, std::as_writable_bytes(std::span(text))));
  if (!starts_with(text, "{")) return error(ErrorKind::corrupt, where, ": the header does not begin with {");
  data_offset = kLengthBytes + length;
  return parse_json(text, where);
}

Result<std::vector<int64_t>> read_integers(const Json* list, const std::string& where) {
  if (list == nullptr || !list->is_array()) return error(ErrorKind::corrupt, where, " missing: want a list");
  std::vector<int64_t> values;
  for (const Json& item : list->as_array()) {
    if (!item.is_integer() || item.as_integer() < 0) {
      return error(ErrorKind::corrupt, where, " holds ", printable(write_json(item)),
                   ": want integers from 0 below 2^63");
    }
    values.push_back(item.as_integer());
  }
  return values;
}

// `entry.offset` counts from the beginning of the data here.
Result<TensorEntry> read_tensor(const std::string& name, const Json& description, const std::string& where) {
  const std::string tensor = cat(where, ": tensor ", printable(name));
  const Json* dtype = description.find("dtype");
  if (dtype == nullptr || !dtype->is_string()) return error(ErrorKind::corrupt, tensor, " has no dtype");
  const auto format = format_by_safetensors_name(dtype->as_string());
  if (!format)
    return error(ErrorKind::unsupported, tensor, " has dtype ", printable(dtype->as_string()), ": want a known dtype");
  TRY(std::vector<int64_t> shape, read_integers(description.find("shape"), cat(tensor, ": shape")));
  TRY(const auto offsets, read_integers(description.find("data_offsets"), cat(tensor, ": data_offsets")));
  if (shape.size() > kMaxDimensions)
    return error(ErrorKind::unsupported, tensor, " has ", shape.size(), " dimensions: want at most ", kMaxDimensions);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    return error(ErrorKind::corrupt, tensor, ": data_offsets are ", format_shape(offsets), ": want begin and end");
  const auto bytes = tensor_bytes(*format, shape);
  const auto held = static_cast<uint64_t>(offsets[1] - offsets[0]);
  if (bytes != held) {
    return error(ErrorKind::corrupt, tensor, " is ", format_name(*format), " ", format_shape(shape), " in ", held,
                 " bytes: want ", bytes ? cat(*bytes) : "a size below 2^63");
  }
  return TensorEntry{name, *format, std::move(shape), static_cast<uint64_t>(offsets[0]), held};
}

Status check_metadata(const Json& metadata, const std::string& where) {
  const auto is_text = [](const Json::Member& member) { return member.second.is_string(); };
  if (metadata.is_object() && std::ranges::all_of(metadata.as_object(), is_text)) return {};
  return error(ErrorKind::corrupt, where, ": ", kMetadataName, " holds something else: want names with strings");
}

// Sorts by offset; then each tensor begins where the one before ends, and the last ends with the file.
Status check_contiguous(std::vector<TensorEntry>& entries, uint64_t data_bytes, const std::string& where) {
  std::ranges::sort(entries, {}, [](const TensorEntry& entry) { return std::tie(entry.offset, entry.bytes); });
  uint64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.offset != end) {
      return error(ErrorKind::corrupt, where, ": tensor ", printable(entry.name), " begins at ", entry.offset,
                   " of the data: want ", end);
    }
    end += entry.bytes;  // both below 2^63
  }
  if (end == data_bytes) return {};
  return error(ErrorKind::corrupt, where, ": the tensors end at ", end, " of the data: want ", data_bytes,
               ", the end of the file");
}

}  // namespace

Result<std::vector<TensorEntry>> parse_safetensors(const ByteSource& source, const std::string& where) {
  uint64_t data_offset = 0;
  TRY(const Json header, read_header(source, where, data_offset));
  std::vector<TensorEntry> entries;
  for (const auto& [name, description] : header.as_object()) {
    if (name == kMetadataName) {
      TRY_STATUS(check_metadata(description, where));
      continue;
    }
    TRY(TensorEntry entry, read_tensor(name, description, where));
    entries.push_back(std::move(entry));
  }
  if (entries.size() > kMaxTensors)
    return error(ErrorKind::unsupported, where, ": ", entries.size(), " tensors: want at most ", kMaxTensors);
  TRY_STATUS(check_contiguous(entries, source.size() - data_offset, where));
  for (TensorEntry& entry : entries) entry.offset += data_offset;
  return entries;
}

}  // namespace sluice

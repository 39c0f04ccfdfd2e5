#include "checkpoint/gguf.h"

#include <bit>
#include <unordered_set>

#include "base/checked.h"
#include "base/limits.h"
#include "checkpoint/byte_reader.h"

namespace sluice {

namespace {

constexpr uint64_t kLeastKeyBytes = 8 + 4 + 1;       // empty name, type, one byte
constexpr uint64_t kLeastInfoBytes = 8 + 4 + 4 + 8;  // empty name, no dimensions
constexpr int64_t kInterleaved = 200;                // ik_llama.cpp adds this to a type whose rows are interleaved

struct ForkType {
  int64_t id;
  const char* name;
};
// Types of ik_llama.cpp and of BitNet forks. They are refused, but the error names them.
constexpr ForkType kForkTypes[] = {
    {36, "i2_s"},    {97, "q8_0_x4"}, {98, "q8_1_x4"}, {99, "q8_2_x4"},  {133, "q6_0"},   {134, "iq1_bn"},
    {135, "iq2_bn"}, {136, "q8_k64"}, {137, "iq2_k"},  {138, "iq3_k"},   {139, "iq4_k"},  {140, "iq5_k"},
    {141, "iq6_k"},  {144, "iq4_ks"}, {145, "iq2_ks"}, {146, "iq4_kss"}, {152, "iq5_ks"}, {153, "iq2_kt"},
    {154, "iq3_kt"}, {155, "iq4_kt"}, {156, "iq3_ks"}, {157, "iq2_kl"},  {158, "iq1_kt"},
};

std::string describe_unknown_type(int32_t id) {
  const bool interleaved = id >= kInterleaved + 2;
  const int64_t base = interleaved ? id - kInterleaved : id;
  for (const ForkType& type : kForkTypes)
    if (type.id == base) return cat(id, " (", type.name, interleaved ? ", row-interleaved" : "", ", of a fork)");
  const auto known = interleaved ? format_by_ggml_type(base) : std::nullopt;
  if (known) return cat(id, " (", format_name(*known), ", row-interleaved, of a fork)");
  return cat(id);
}

// ---- keys

template <class T>
Result<T> read_scalar(ByteReader& reader) {
  return reader.number<T>("a value");
}
template <>
Result<bool> read_scalar(ByteReader& reader) {
  TRY(const auto byte, reader.number<uint8_t>("a value"));
  return byte != 0;
}
template <>
Result<std::string> read_scalar(ByteReader& reader) {
  return reader.string("a string");
}

// The least bytes that an element takes in a file.
template <class T>
constexpr uint64_t kLeastBytes = sizeof(T);
template <>
constexpr uint64_t kLeastBytes<bool> = 1;
template <>
constexpr uint64_t kLeastBytes<std::string> = 8;

// An empty string has 8 bytes in a file and takes 32 in memory. So strings are counted through all arrays.
struct KeyReader : ByteReader {
  using ByteReader::ByteReader;
  uint64_t strings_left = kMaxGgufStrings;
};

template <class T>
Result<GgufValue> read_array(KeyReader& reader) {
  constexpr bool kStrings = std::is_same_v<T, std::string>;
  TRY(const auto count, reader.number<uint64_t>("an array's length"));
  const uint64_t limit = kStrings ? std::min(kMaxArrayElements, reader.strings_left) : kMaxArrayElements;
  const uint64_t most = std::min(limit, reader.remaining() / kLeastBytes<T>);
  if (count > most) return reader.corrupt("an array has ", count, " elements: want at most ", most);
  std::vector<T> values;
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    values.resize(static_cast<size_t>(count));
    TRY_STATUS(reader.fill(std::as_writable_bytes(std::span(values)), "an array"));
  } else {
    if (kStrings) reader.strings_left -= count;
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) {
      TRY(T value, read_scalar<T>(reader));
      values.push_back(std::move(value));
    }
  }
  return GgufValue(std::move(values));
}

template <class T>
Result<GgufValue> read_typed(KeyReader& reader, bool array) {
  if (array) return read_array<T>(reader);
  TRY(T value, read_scalar<T>(reader));
  return GgufValue(std::move(value));
}

Result<GgufValue> read_elements(KeyReader& reader, uint32_t type, bool array) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::u8: return read_typed<uint8_t>(reader, array);
    case GgufType::i8: return read_typed<int8_t>(reader, array);
    case GgufType::u16: return read_typed<uint16_t>(reader, array);
    case GgufType::i16: return read_typed<int16_t>(reader, array);
    case GgufType::u32: return read_typed<uint32_t>(reader, array);
    case GgufType::i32: return read_typed<int32_t>(reader, array);
    case GgufType::f32: return read_typed<float>(reader, array);
    case GgufType::boolean: return read_typed<bool>(reader, array);
    case GgufType::string: return read_typed<std::string>(reader, array);
    case GgufType::u64: return read_typed<uint64_t>(reader, array);
    case GgufType::i64: return read_typed<int64_t>(reader, array);
    case GgufType::f64: return read_typed<double>(reader, array);
    case GgufType::array: return reader.corrupt("an array of arrays: want no nesting");
  }
  return reader.corrupt("value type ", type, ": want 0 to ", kGgufTypes - 1);
}

Result<GgufValue> read_value(KeyReader& reader) {
  TRY(const auto type, reader.number<uint32_t>("a value type"));
  if (type != static_cast<uint32_t>(GgufType::array)) return read_elements(reader, type, false);
  TRY(const auto element, reader.number<uint32_t>("an element type"));
  return read_elements(reader, element, true);
}

Result<GgufMetadata> read_keys(KeyReader& reader, int64_t count, const std::string& where) {
  GgufMetadata metadata(where);
  for (int64_t i = 0; i < count; ++i) {
    TRY(std::string name, reader.string("a key"));
    if (name.empty()) return reader.corrupt("key ", i, " has no name");
    auto value = read_value(reader);
    if (!value) return error(value.error().kind, value.error().text, " (key ", printable(name), ")");
    const std::string shown = printable(name);
    if (!metadata.add(std::move(name), *std::move(value))) return reader.corrupt("key ", shown, " stands twice");
  }
  return metadata;
}

Result<uint64_t> read_alignment(const GgufMetadata& metadata, const std::string& where) {
  if (metadata.find(kGgufAlignmentKey) == nullptr) return uint64_t{kGgufAlignment};
  TRY(const uint32_t alignment, metadata.get_u32(kGgufAlignmentKey));
  if (!std::has_single_bit(alignment))
    return error(ErrorKind::corrupt, where, ": ", kGgufAlignmentKey, " is ", alignment, ": want a power of two");
  return uint64_t{alignment};
}

// ---- tensors

struct TensorInfo {
  TensorEntry entry;     // without offset
  uint64_t in_data = 0;  // offset the file gives
};

Result<std::vector<int64_t>> read_shape(ByteReader& reader, const std::string& name) {
  TRY(const auto dimensions, reader.number<uint32_t>("a tensor info"));
  if (dimensions > kMaxGgufDimensions)
    return reader.corrupt(name, " has ", dimensions, " dimensions: want at most ", kMaxGgufDimensions);
  std::vector<int64_t> shape(dimensions);
  TRY_STATUS(reader.fill(std::as_writable_bytes(std::span(shape)), "a tensor info"));
  return std::vector<int64_t>(shape.rbegin(), shape.rend());
}

Result<TensorInfo> read_info(ByteReader& reader) {
  TensorInfo info;
  TRY(info.entry.name, reader.string("a tensor name"));
  const std::string name = cat("tensor ", printable(info.entry.name));
  if (info.entry.name.size() > kMaxGgufNameBytes)
    return reader.corrupt(name, " has a name of ", info.entry.name.size(), " bytes: want at most ", kMaxGgufNameBytes);
  TRY(info.entry.shape, read_shape(reader, name));
  TRY(const auto type, reader.number<int32_t>("a tensor info"));
  TRY(info.in_data, reader.number<uint64_t>("a tensor info"));
  const auto format = format_by_ggml_type(type);
  if (!format) return reader.corrupt(name, " has type ", describe_unknown_type(type), ": want a known type");
  const auto bytes = tensor_bytes(*format, info.entry.shape);
  if (!bytes) {
    return reader.corrupt(name, " is ", format_name(*format), " ", format_shape(info.entry.shape),
                          ": want dimensions of at least 0, whole blocks of ", format_info(*format).block_elements,
                          " and a size below 2^63 bytes");
  }
  info.entry.format = *format;
  info.entry.bytes = *bytes;
  return info;
}

Result<std::vector<TensorInfo>> read_infos(ByteReader& reader, int64_t count) {
  std::vector<TensorInfo> infos;
  std::unordered_set<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    TRY(TensorInfo info, read_info(reader));
    if (!names.insert(info.entry.name).second)
      return reader.corrupt("tensor ", printable(info.entry.name), " stands twice");
    infos.push_back(std::move(info));
  }
  return infos;
}

// A file that ends before its tensors do: a download that stopped, or lies about sizes.
Error cut_short(const std::vector<TensorInfo>& infos, CheckedSize data_offset, uint64_t file_bytes,
                const std::string& where) {
  CheckedSize whole = data_offset;
  for (const TensorInfo& info : infos) {
    const CheckedSize end = data_offset + info.in_data + info.entry.bytes;
    if (!end.value() || !whole.value() || *end.value() > *whole.value()) whole = end;
  }
  const std::string want = whole.value() ? cat(*whole.value(), " bytes") : "more bytes than 64 bits can count";
  return error(ErrorKind::corrupt, where, ": is cut short: has ", file_bytes, " bytes: want the whole file of ", want);
}

// Tensors follow each other without gap, overlap or reordering, each start aligned; the last padding may be missing.
Result<std::vector<TensorEntry>> lay_out(const std::vector<TensorInfo>& infos, CheckedSize data_offset,
                                         uint64_t alignment, uint64_t file_bytes, const std::string& where) {
  std::vector<TensorEntry> entries;
  CheckedSize in_data = 0;
  for (const TensorInfo& info : infos) {
    const std::string tensor = cat(where, ": tensor ", printable(info.entry.name));
    if (in_data.value() != info.in_data) {
      return error(ErrorKind::corrupt, tensor, " begins at ", info.in_data, " of the data: want ",
                   in_data.value().value_or(0));
    }
    const CheckedSize begin = data_offset + in_data;
    if (!(begin + info.entry.bytes).fits(file_bytes)) return cut_short(infos, data_offset, file_bytes, where);
    entries.push_back(info.entry);
    entries.back().offset = *begin.value();
    in_data = (in_data + info.entry.bytes).aligned(alignment);
  }
  return entries;
}

Status check_start(ByteReader& reader) {
  TRY(const auto magic, reader.number<uint32_t>("the magic"));
  if (magic != 0x46554747) return reader.corrupt("the file does not begin with GGUF");
  TRY(const auto version, reader.number<uint32_t>("the version"));
  if (version != 0 && (version & 0xffff) == 0) return reader.corrupt("a big-endian file: want little-endian");
  if (version != 2 && version != 3) return reader.corrupt("version ", version, ": want 2 or 3");
  return {};
}

Status check_count(const ByteReader& reader, std::string_view what, int64_t count, uint64_t limit, uint64_t each) {
  const uint64_t most = std::min(limit, reader.remaining() / each);
  if (count >= 0 && static_cast<uint64_t>(count) <= most) return {};
  return reader.corrupt(count, " ", what, ": want 0 to ", most);
}

}  // namespace

Result<GgufHeader> parse_gguf(const ByteSource& source, const std::string& where) {
  KeyReader reader(source, where, kMaxGgufHeaderBytes);
  TRY_STATUS(check_start(reader));
  TRY(const auto tensors, reader.number<int64_t>("the tensor count"));
  TRY(const auto keys, reader.number<int64_t>("the key count"));
  TRY_STATUS(check_count(reader, "tensors", tensors, kMaxTensors, kLeastInfoBytes));
  TRY_STATUS(check_count(reader, "keys", keys, kMaxKeys, kLeastKeyBytes));
  GgufHeader header;
  TRY(header.metadata, read_keys(reader, keys, where));
  TRY(const uint64_t alignment, read_alignment(header.metadata, where));
  TRY(auto infos, read_infos(reader, tensors));
  const CheckedSize data_offset = CheckedSize(reader.position()).aligned(alignment);
  TRY(header.tensors, lay_out(infos, data_offset, alignment, source.size(), where));
  return header;
}

}  // namespace sluice

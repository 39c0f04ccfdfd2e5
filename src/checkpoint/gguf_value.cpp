#include "checkpoint/gguf_value.h"

#include <type_traits>

namespace sluice {

namespace {

constexpr size_t kScalars = std::variant_size_v<GgufAlternatives> / 2;
constexpr GgufType kElementTypes[kScalars] = {GgufType::u8,     GgufType::i8,  GgufType::u16, GgufType::i16,
                                              GgufType::u32,    GgufType::i32, GgufType::f32, GgufType::boolean,
                                              GgufType::string, GgufType::u64, GgufType::i64, GgufType::f64};

std::string text_of_type(GgufType element, bool array) {
  return cat(array ? "array of " : "", gguf_type_name(element));
}

template <class T>
std::string text_of_type() {
  return type_text(GgufValue(T()));
}

}  // namespace

GgufValue::GgufValue() = default;
GgufValue::GgufValue(const GgufValue& other) = default;
GgufValue::GgufValue(GgufValue&& other) noexcept = default;
GgufValue& GgufValue::operator=(const GgufValue& other) = default;
GgufValue& GgufValue::operator=(GgufValue&& other) noexcept = default;
GgufValue::~GgufValue() = default;

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[kGgufTypes] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                     "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

bool is_array(const GgufValue& value) { return value.index() >= kScalars; }

GgufType element_type(const GgufValue& value) { return kElementTypes[value.index() % kScalars]; }

size_t element_count(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> size_t {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
          return 1;
        else
          return held.size();
      },
      value);
}

std::string type_text(const GgufValue& value) { return text_of_type(element_type(value), is_array(value)); }

bool GgufMetadata::add(std::string name, GgufValue value) {
  if (!index_.emplace(name, entries_.size()).second) return false;
  entries_.push_back({std::move(name), std::move(value)});
  return true;
}

const GgufValue* GgufMetadata::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

Error GgufMetadata::mismatch(std::string_view name, std::string_view wanted) const {
  const GgufValue* value = find(name);
  if (value == nullptr) return error(ErrorKind::not_found, where_, ": key ", name, " is missing: want ", wanted);
  return error(ErrorKind::invalid, where_, ": key ", name, " is ", type_text(*value), ": want ", wanted);
}

template <class T>
Result<const T*> GgufMetadata::get(std::string_view name) const {
  const GgufValue* value = find(name);
  const T* held = value == nullptr ? nullptr : std::get_if<T>(value);
  if (held == nullptr) return mismatch(name, text_of_type<T>());
  return held;
}

Result<uint16_t> GgufMetadata::get_u16(std::string_view name) const {
  TRY(const uint16_t* value, get<uint16_t>(name));
  return *value;
}

Result<int32_t> GgufMetadata::get_i32(std::string_view name) const {
  TRY(const int32_t* value, get<int32_t>(name));
  return *value;
}

Result<uint32_t> GgufMetadata::get_u32(std::string_view name) const {
  TRY(const uint32_t* value, get<uint32_t>(name));
  return *value;
}

Result<float> GgufMetadata::get_f32(std::string_view name) const {
  TRY(const float* value, get<float>(name));
  return *value;
}

Result<bool> GgufMetadata::get_bool(std::string_view name) const {
  TRY(const bool* value, get<bool>(name));
  return *value;
}

Result<std::string> GgufMetadata::get_string(std::string_view name) const {
  TRY(const std::string* value, get<std::string>(name));
  return *value;
}

template <class T>
Result<const std::vector<T>*> GgufMetadata::get_array(std::string_view name) const {
  return get<std::vector<T>>(name);
}

template Result<const std::vector<uint8_t>*> GgufMetadata::get_array(std::string_view) const;
template Result<const std::vector<int8_t>*> GgufMetadata::get_array(std::string_view) const;
template Result<const std::vector<uint32_t>*> GgufMetadata::get_array(std::string_view) const;
template Result<const std::vector<int32_t>*> GgufMetadata::get_array(std::string_view) const;
template Result<const std::vector<float>*> GgufMetadata::get_array(std::string_view) const;
template Result<const std::vector<bool>*> GgufMetadata::get_array(std::string_view) const;
template Result<const std::vector<std::string>*> GgufMetadata::get_array(std::string_view) const;

Result<std::vector<uint32_t>> GgufMetadata::get_per_layer(std::string_view name, uint32_t layers) const {
  const GgufValue* value = find(name);
  std::vector<uint32_t> out;
  bool negative = false;
  const auto put = [&](auto element) {
    negative = negative || element < 0;
    out.push_back(static_cast<uint32_t>(element));
  };
  const auto put_all = [&](const auto& array) {
    for (const auto element : array) put(int64_t{element});
  };
  if (value == nullptr) return mismatch(name, "u32 or one a layer");
  if (const auto* one = std::get_if<uint32_t>(value)) return std::vector<uint32_t>(layers, *one);
  if (const auto* numbers = std::get_if<GgufArray<uint32_t>>(value))
    put_all(*numbers);
  else if (const auto* integers = std::get_if<GgufArray<int32_t>>(value))
    put_all(*integers);
  else if (const auto* flags = std::get_if<GgufArray<bool>>(value))
    put_all(*flags);
  else
    return mismatch(name, "u32 or one a layer");
  if (negative) return error(ErrorKind::invalid, where_, ": key ", name, " holds a negative number: want none");
  if (out.size() != layers) {
    return error(ErrorKind::invalid, where_, ": key ", name, " has ", out.size(), " elements: want ", layers,
                 ", one a layer");
  }
  return out;
}

}  // namespace sluice

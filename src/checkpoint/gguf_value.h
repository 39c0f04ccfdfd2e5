// Metadata of a GGUF file. Keys keep the exact types of their values, so a file can be written again unchanged. Source:
// the GGUF v3 layout of ggml (ggml/include/gguf.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace sluice {

// Numbered as in files.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
inline constexpr uint32_t kGgufTypes = 13;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr uint32_t kGgufAlignment = 32;  // if the file has no such key
const char* gguf_type_name(GgufType type);      // "u32", "bool", "string", "array"

template <class T>
using GgufArray = std::vector<T>;

using GgufAlternatives =
    std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string, uint64_t, int64_t,
                 double, GgufArray<uint8_t>, GgufArray<int8_t>, GgufArray<uint16_t>, GgufArray<int16_t>,
                 GgufArray<uint32_t>, GgufArray<int32_t>, GgufArray<float>, GgufArray<bool>, GgufArray<std::string>,
                 GgufArray<uint64_t>, GgufArray<int64_t>, GgufArray<double>>;

// The alternative is the type of the value: scalars first, then one array for each element type. Arrays do not nest.
// Copies and the destructor are compiled once, in gguf_value.cpp, because of the time that they take.
class GgufValue : public GgufAlternatives {
 public:
  GgufValue();
  template <class T>
    requires(!std::is_base_of_v<GgufAlternatives, T>)
  GgufValue(T value)  // NOLINT(google-explicit-constructor)
      : GgufAlternatives(std::in_place_type<T>, std::move(value)) {}
  GgufValue(const GgufValue& other);
  GgufValue(GgufValue&& other) noexcept;
  GgufValue& operator=(const GgufValue& other);
  GgufValue& operator=(GgufValue&& other) noexcept;
  ~GgufValue();
};

bool is_array(const GgufValue& value);
GgufType element_type(const GgufValue& value);  // of a scalar: its own type
size_t element_count(const GgufValue& value);   // of a scalar: 1
std::string type_text(const GgufValue& value);  // "u32", "array of string"

class GgufMetadata {
 public:
  struct Entry {
    std::string name;
    GgufValue value;
  };

  GgufMetadata() = default;
  // Every error begins with `where`: "model.gguf".
  explicit GgufMetadata(std::string where) : where_(std::move(where)) {}

  // False when the key is there already.
  bool add(std::string name, GgufValue value);
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of the file
  const GgufValue* find(std::string_view name) const;

  // not_found when the key is missing, invalid when it has another type: "model.gguf: key x is i32: want u32".
  Result<uint16_t> get_u16(std::string_view name) const;
  Result<int32_t> get_i32(std::string_view name) const;
  Result<uint32_t> get_u32(std::string_view name) const;
  Result<float> get_f32(std::string_view name) const;
  Result<bool> get_bool(std::string_view name) const;
  Result<std::string> get_string(std::string_view name) const;
  // A pointer into this metadata. T: float, int32_t, uint32_t, std::string, bool ...
  template <class T>
  Result<const std::vector<T>*> get_array(std::string_view name) const;
  // One value for each layer. The key holds a scalar for all layers or an array of exactly `layers` values, each u32,
  // i32 >= 0 or bool.
  Result<std::vector<uint32_t>> get_per_layer(std::string_view name, uint32_t layers) const;

 private:
  template <class T>
  Result<const T*> get(std::string_view name) const;
  Error mismatch(std::string_view name, std::string_view wanted) const;

  std::string where_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace sluice

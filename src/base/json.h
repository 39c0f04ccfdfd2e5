// JSON documents: a value type that keeps the order of members, a bounded parser, a writer.
//
// The parser is nlohmann's SAX reader; only json.cpp includes it. The value type is Sluice's own, because chat
// templates, tokenizers and command output need ordered members and no exceptions. Duplicate member names are an error.
// Depth is bounded (kMaxJsonDepth).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace sluice {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in the order of the document

  Json();                                                       // null
  Json(bool value) : value_(value) {}                           // NOLINT(google-explicit-constructor)
  Json(int value) : value_(int64_t{value}) {}                   // NOLINT(google-explicit-constructor)
  Json(int64_t value) : value_(value) {}                        // NOLINT(google-explicit-constructor)
  Json(double value) : value_(value) {}                         // NOLINT(google-explicit-constructor)
  Json(std::string value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Json(std::string_view value) : value_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Json(const char* value) : value_(std::string(value)) {}       // NOLINT(google-explicit-constructor)
  Json(Array value) : value_(std::move(value)) {}               // NOLINT(google-explicit-constructor)
  Json(Object value) : value_(std::move(value)) {}              // NOLINT(google-explicit-constructor)
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // The value; CHECKs the kind. as_number takes integers too.
  bool as_bool() const;
  int64_t as_integer() const;
  double as_number() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;
  Array& as_array();
  Object& as_object();

  // A member of an object. Null when it is missing, or when this is no object.
  const Json* find(std::string_view name) const;
  // Appends to an object; null becomes an object. Does not look for an earlier member of the same name.
  void add(std::string name, Json value);

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// `where` names the document in errors: "config.json". Integers beyond int64 become doubles.
Result<Json> parse_json(std::string_view text, std::string_view where);

// At most so many values, names included, come of a text that parse_json takes: to know the memory before it is taken.
uint64_t most_json_values(std::string_view text);

struct JsonStyle {
  int indent = -1;  // -1: one line with ", " and ": "
};
// Non-ASCII text is kept, control characters are escaped; doubles print so that they read back equal.
std::string write_json(const Json& value, JsonStyle style = {});
// The shortest form that reads back equal, written as Python's repr and json.dumps write it ("1.0", "1e-06", "NaN").
std::string format_number(double value);

}  // namespace sluice

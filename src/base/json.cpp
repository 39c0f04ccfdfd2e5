#include "base/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/limits.h"

namespace sluice {

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

bool Json::as_bool() const {
  CHECK(is_bool());
  return *std::get_if<bool>(&value_);
}
int64_t Json::as_integer() const {
  CHECK(is_integer());
  return *std::get_if<int64_t>(&value_);
}
double Json::as_number() const {
  if (is_integer()) return static_cast<double>(as_integer());
  CHECK(is_number());
  return *std::get_if<double>(&value_);
}
const std::string& Json::as_string() const {
  CHECK(is_string());
  return *std::get_if<std::string>(&value_);
}
const Json::Array& Json::as_array() const {
  CHECK(is_array());
  return *std::get_if<Array>(&value_);
}
const Json::Object& Json::as_object() const {
  CHECK(is_object());
  return *std::get_if<Object>(&value_);
}
Json::Array& Json::as_array() {
  CHECK(is_array());
  return *std::get_if<Array>(&value_);
}
Json::Object& Json::as_object() {
  CHECK(is_object());
  return *std::get_if<Object>(&value_);
}

const Json* Json::find(std::string_view name) const {
  const auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  for (const auto& [key, value] : *object)
    if (key == name) return &value;
  return nullptr;
}

void Json::add(std::string name, Json value) {
  if (is_null()) value_ = Object{};
  as_object().emplace_back(std::move(name), std::move(value));
}

namespace {

// Builds Json values from nlohmann's parse events; returning false stops the parser with `problem_` set.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put({}); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= uint64_t{INT64_MAX} ? put(Json(static_cast<int64_t>(value))) : put(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::Object{}); }
  bool start_array(std::size_t) override { return open(Json::Array{}); }
  bool key(string_t& value) override {
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override {
    // Sorting a copy of the names finds duplicates in n log n; a million members must not cost a million squared.
    std::vector<std::string_view> names;
    for (const auto& member : open_.back().as_object()) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) {
      problem_ = cat("the name \"", printable(*twice), "\" stands twice in one object");
      return false;
    }
    return close();
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    problem_ = cat("no JSON at byte ", position);
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

 private:
  bool open(Json container) {
    if (open_.size() == kMaxJsonDepth) {
      problem_ = cat("nested deeper than ", kMaxJsonDepth);
      return false;
    }
    open_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Json done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return put(std::move(done));
  }
  bool put(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().is_array())
      open_.back().as_array().push_back(std::move(value));
    else
      open_.back().as_object().emplace_back(std::move(keys_.back()), std::move(value));
    return true;
  }

  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;  // the pending member name of each open container
  std::string problem_;
};

void write_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char escaped[8];
          std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
          out += escaped;
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void write(std::string& out, const Json& value, JsonStyle style, int depth) {
  const auto newline = [&](int at) {
    if (style.indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(style.indent) * static_cast<size_t>(at), ' ');
  };
  const char* separator = style.indent < 0 ? ", " : ",";
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_integer()) {
    out += cat(value.as_integer());
  } else if (value.is_number()) {
    out += format_number(value.as_number());
  } else if (value.is_string()) {
    write_string(out, value.as_string());
  } else if (value.is_array()) {
    if (value.as_array().empty()) {
      out += "[]";
      return;
    }
    out += '[';
    bool first = true;
    for (const Json& item : value.as_array()) {
      if (!first) out += separator;
      first = false;
      newline(depth + 1);
      write(out, item, style, depth + 1);
    }
    newline(depth);
    out += ']';
  } else {
    if (value.as_object().empty()) {
      out += "{}";
      return;
    }
    out += '{';
    bool first = true;
    for (const auto& [name, member] : value.as_object()) {
      if (!first) out += separator;
      first = false;
      newline(depth + 1);
      write_string(out, name);
      out += ": ";
      write(out, member, style, depth + 1);
    }
    newline(depth);
    out += '}';
  }
}

}  // namespace

uint64_t most_json_values(std::string_view text) {
  uint64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string)
      i += c == '\\' ? 1 : 0;
    else
      values += c == ',' || c == ':' || c == '[' || c == '{' ? 1 : 0;
  }
  return values;
}

Result<Json> parse_json(std::string_view text, std::string_view where) {
  Builder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
    return error(ErrorKind::corrupt, where, ": ", builder.problem());
  return builder.take();
}

std::string format_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char digits[40];
  int precision = 15;
  do {
    std::snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
  } while (std::strtod(digits, nullptr) != value && ++precision <= 17);
  while (precision > 1) {  // 15 digits may be more than needed
    char fewer[40];
    std::snprintf(fewer, sizeof fewer, "%.*e", precision - 2, value);
    if (std::strtod(fewer, nullptr) != value) break;
    --precision;
  }
  std::snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
  const int exponent = std::atoi(std::strchr(digits, 'e') + 1);
  if (exponent >= -4 && exponent < 16)
    std::snprintf(digits, sizeof digits, "%.*f", std::max(precision - 1 - exponent, 1), value);
  return digits;
}

std::string write_json(const Json& value, JsonStyle style) {
  std::string out;
  write(out, value, style, 0);
  return out;
}

}  // namespace sluice

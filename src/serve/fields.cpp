#include "serve/fields.h"

#include <algorithm>

namespace sluice {
namespace {

std::string range_text(double least, double most) { return cat(least, " to ", most); }

bool says_nothing(const Json& value) {
  if (value.is_bool()) return !value.as_bool();
  if (value.is_number()) return value.as_number() == 0;
  if (value.is_array()) return value.as_array().empty();
  return value.is_string() && value.as_string().empty();
}

}  // namespace

const Json* Fields::find(std::string_view name) {
  read_.push_back(name);
  const Json* value = object_->find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Refusal Fields::wrong(std::string_view name, const Json& value, std::string_view want) const {
  return refuse(path(name), path(name), " is ", printable(write_json(value)), ": want ", want);
}

Outcome<std::optional<double>> Fields::number(std::string_view name, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<double>();
  if (value->is_number() && value->as_number() >= least && value->as_number() <= most)
    return std::optional(value->as_number());
  return wrong(name, *value, cat("a number from ", range_text(least, most)));
}

Outcome<std::optional<int64_t>> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<int64_t>();
  // Some clients write whole numbers as 16.0.
  const bool whole =
      value->is_integer() || (value->is_number() && value->as_number() >= -9e15 && value->as_number() <= 9e15 &&
                              value->as_number() == static_cast<double>(int64_t(value->as_number())));
  if (whole) {
    const int64_t found = value->is_integer() ? value->as_integer() : static_cast<int64_t>(value->as_number());
    if (found >= least && found <= most) return std::optional(found);
  }
  return wrong(name, *value, cat("a whole number from ", least, " to ", most));
}

Outcome<std::optional<bool>> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<bool>();
  if (value->is_bool()) return std::optional(value->as_bool());
  return wrong(name, *value, "true or false");
}

Outcome<std::optional<std::string>> Fields::text(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<std::string>();
  if (value->is_string()) return std::optional(value->as_string());
  return wrong(name, *value, "a string");
}

Outcome<const Json*> Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  return wrong(name, *value, "an object");
}

Outcome<const Json*> Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_array()) return value;
  return wrong(name, *value, "a list");
}

Outcome<std::vector<std::string>> Fields::texts(std::string_view name, size_t most) {
  std::vector<std::string> found;
  const Json* value = find(name);
  if (value == nullptr) return found;
  if (value->is_string()) return std::vector<std::string>{value->as_string()};
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!value->is_array() || value->as_array().size() > most || !std::ranges::all_of(value->as_array(), is_text))
    return wrong(name, *value, cat("a string, or a list of at most ", most));
  found.reserve(value->as_array().size());
  for (const Json& one : value->as_array()) found.push_back(one.as_string());
  return found;
}

Checked Fields::refuse_any(std::initializer_list<std::string_view> names, std::string_view why) {
  for (const std::string_view name : names) {
    const Json* value = find(name);
    if (value != nullptr && !says_nothing(*value)) return refuse(path(name), path(name), ": ", why);
  }
  return Fine{};
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->as_object())
    if (!value.is_null() && std::ranges::find(read_, name) == read_.end()) names.push_back(path(printable(name)));
  return names;
}

Outcome<Json> parse_body(std::string_view body) {
  if (body.empty()) return refuse("", "the request has no body: want a JSON object");
  TRY(Json json, parse_json(body, "the request's body"));
  if (!json.is_object()) return refuse("", "the request's body is no JSON object: want {...}");
  return json;
}

}  // namespace sluice

#include "tests/app/json_fields.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace sluice {
namespace {

const char* type_of(const Json& json) {
  if (json.is_null()) return "null";
  if (json.is_bool()) return "boolean";
  if (json.is_integer()) return "integer";
  if (json.is_number()) return "number";
  return json.is_string() ? "string" : "object";
}

bool type_allows(const std::string& type, const std::string& found) {
  for (const char* one : {"null", "boolean", "integer", "number", "string", "object"}) {
    const bool named = type.find(one) != std::string::npos;
    if (named && (found == one || (found == std::string("integer") && one == std::string("number")))) return true;
  }
  return false;
}

// "model.details.attention" is in the table as "model.details.*".
const JsonField* find_field(const CommandSpec& command, const std::string& path) {
  const std::string any = path.substr(0, path.rfind('.') + 1) + "*";
  const auto found = std::find_if(command.json.begin(), command.json.end(),
                                  [&](const JsonField& field) { return field.name == path || field.name == any; });
  return found == command.json.end() ? nullptr : &*found;
}

void walk(const CommandSpec& command, const Json& json, const std::string& path, std::set<std::string>& seen) {
  const JsonField* field = find_field(command, path);
  if (field != nullptr) {
    seen.insert(field->name);
    EXPECT_TRUE(type_allows(field->type, type_of(json))) << path << " is " << type_of(json) << ": want " << field->type;
  }
  if (json.is_object())
    for (const auto& [name, value] : json.as_object())
      walk(command, value, path.empty() ? name : cat(path, '.', name), seen);
  else if (json.is_array())
    for (const Json& value : json.as_array()) walk(command, value, path + "[]", seen);
  else
    EXPECT_NE(field, nullptr) << path << " is not in the table of sluice " << command.name;
}

}  // namespace

void expect_known_fields(const CommandSpec& command, const Json& json, std::set<std::string>& seen) {
  ASSERT_TRUE(json.is_object());
  walk(command, json, "", seen);
}

void expect_all_fields(const CommandSpec& command, const std::set<std::string>& seen) {
  for (const JsonField& field : command.json)
    EXPECT_EQ(seen.count(field.name), 1u) << field.name << " of sluice " << command.name << " was never printed";
}

}  // namespace sluice

#include "wasm/json_members.h"

#include <algorithm>

namespace sluice::wasm {
namespace {

constexpr double kMostBytes = 1e15;

}  // namespace

Result<std::string> text_of(const Json& object, std::string_view name, std::string_view otherwise) {
  const Json* member = object.find(name);
  if (member == nullptr) return std::string(otherwise);
  if (member->is_string()) return member->as_string();
  return error(ErrorKind::invalid, name, ": is no string: want one");
}

Result<bool> flag_of(const Json& object, std::string_view name, bool otherwise) {
  const Json* member = object.find(name);
  if (member == nullptr) return otherwise;
  if (member->is_bool()) return member->as_bool();
  return error(ErrorKind::invalid, name, ": found ", write_json(*member), ": want true or false");
}

Result<uint64_t> bytes_of(const Json& object, std::string_view name) {
  TRY(const double bytes, number_of<double>(object, name, 0));
  if (bytes >= 0) return static_cast<uint64_t>(std::min(bytes, kMostBytes));
  return error(ErrorKind::invalid, name, ": found ", write_json(*object.find(name)), ": want a number of bytes");
}

Result<std::vector<std::string>> strings_of(const Json& object, std::string_view name) {
  std::vector<std::string> strings;
  const Json* member = object.find(name);
  if (member == nullptr) return strings;
  for (const Json& one : member->is_array() ? member->as_array() : Json::Array{*member}) {
    if (!one.is_string()) return error(ErrorKind::invalid, name, ": found ", write_json(one), ": want strings");
    strings.push_back(one.as_string());
  }
  return strings;
}

}  // namespace sluice::wasm

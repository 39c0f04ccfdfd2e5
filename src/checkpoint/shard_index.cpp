#include "checkpoint/shard_index.h"

#include "base/json.h"

namespace sluice {

namespace {

bool is_plain_name(const Json& file) {
  if (!file.is_string() || !ends_with(file.as_string(), ".safetensors")) return false;
  return file.as_string().find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_shard_index(std::string_view text, const std::string& where) {
  TRY(const Json index, parse_json(text, where));
  const Json* weight_map = index.find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object())
    return error(ErrorKind::corrupt, where, ": no weight_map: want tensor names with file names");
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : weight_map->as_object()) {
    if (!is_plain_name(file)) {
      return error(ErrorKind::corrupt, where, ": tensor ", printable(tensor), " is in ", printable(write_json(file)),
                   ": want a safetensors file of the directory");
    }
    shards.emplace(tensor, file.as_string());
  }
  return shards;
}

}  // namespace sluice

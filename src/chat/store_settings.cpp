#include "chat/store_settings.h"

#include <limits>
#include <utility>

#include "base/text.h"
#include "chat/conversation_file.h"
#include "engine/sampling_json.h"

namespace sluice {
namespace {

Error wrong(const std::string& where, const std::string& name, const Json& value, const char* want) {
  return error(ErrorKind::invalid, where, ": ", name, " is ", printable(write_json(value)), ": want ", want);
}

Status read_stops(const std::string& where, const Json& value, std::vector<std::string>& stops) {
  for (const Json& stop : value.is_array() ? value.as_array() : Json::Array{value}) {
    if (!stop.is_string() || stop.as_string().empty()) return wrong(where, "stop", stop, "a text");
    stops.push_back(stop.as_string());
  }
  return {};
}

// A number of tokens; negative ones stand for "no limit".
Status read_tokens(const std::string& where, const std::string& name, const Json& value,
                   std::optional<uint32_t>& tokens) {
  if (!value.is_integer() || value.as_integer() > std::numeric_limits<int32_t>::max())
    return wrong(where, name, value, "a number of tokens");
  tokens.reset();
  if (value.as_integer() > 0) tokens = static_cast<uint32_t>(value.as_integer());
  return {};
}

Status read_param(const std::string& where, const Json::Member& param, StoreSettings& settings) {
  const auto& [name, value] = param;
  if (name == "stop") return read_stops(where, value, settings.stops);
  if (name == "num_ctx") return read_tokens(where, name, value, settings.context);
  if (name == "num_predict") return read_tokens(where, name, value, settings.max_tokens);
  if (!is_sampling_name(name)) settings.unused.push_back(name);
  return {};
}

}  // namespace

Result<StoreSettings> read_store_settings(const ModelFiles& files, uint32_t vocabulary, SamplingSettings sampling) {
  StoreSettings settings;
  settings.sampling = std::move(sampling);
  settings.system = files.system;
  if (files.params.is_object()) {
    const std::string where = cat(files.name, ": params");
    TRY_STATUS(read_sampling(files.params, where, vocabulary, settings.sampling));
    for (const Json::Member& param : files.params.as_object()) TRY_STATUS(read_param(where, param, settings));
  }
  if (files.messages.is_array())
    TRY_ASSIGN(settings.messages, read_messages(files.messages, cat(files.name, ": messages")));
  return settings;
}

std::string go_template_note(const ModelFiles& files, const std::string& used) {
  if (files.go_template.empty()) return "";
  return cat("Go's, which is not rendered: ", used.empty() ? "there is no other, so text goes on as it is" : used,
             used.empty() ? "" : " is used");
}

}  // namespace sluice

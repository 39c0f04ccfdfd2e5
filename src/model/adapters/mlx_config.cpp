#include "model/adapters/mlx_config.h"

#include "base/text.h"

namespace sluice {
namespace {

constexpr const char* kType = "fine_tune_type";
constexpr const char* kParameters = "lora_parameters";
constexpr double kMostScale = 1e9;

}  // namespace

bool is_mlx_config(const Json& json) {
  return json.is_object() && (json.find(kType) != nullptr || json.find(kParameters) != nullptr);
}

Result<float> mlx_scale(const Json& json, const std::string& where) {
  // Older versions train nothing else and do not say so.
  if (const Json* const type = json.find(kType); type != nullptr && !type->is_null()) {
    const std::string kind = type->is_string() ? type->as_string() : "";
    if (kind != "lora")
      return error(ErrorKind::unsupported, where, ": ", kType, " is ", kind.empty() ? "no name" : printable(kind),
                   ": want lora");
  }
  const Json* const parameters = json.find(kParameters);
  const Json* const scale = parameters != nullptr && parameters->is_object() ? parameters->find("scale") : nullptr;
  if (scale == nullptr || !scale->is_number() || !(scale->as_number() > -kMostScale && scale->as_number() < kMostScale))
    return error(ErrorKind::corrupt, where, ": scale of ", kParameters, " is missing or no number: want that of the ",
                 "factors");
  return static_cast<float>(scale->as_number());
}

}  // namespace sluice

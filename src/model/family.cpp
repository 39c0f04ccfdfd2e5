#include "model/family.h"

#include <algorithm>

namespace sluice {

// A new family adds one line here and one line in the list below.
namespace gemma4 {
const Family& family();
}
namespace qwen3_5 {
const Family& dense();
const Family& with_experts();
}  // namespace qwen3_5
namespace deepseek_v3 {
const Family& family();
}

std::span<const Family* const> all_families() {
  static const Family* const kFamilies[] = {
      &gemma4::family(),
      &qwen3_5::dense(),
      &qwen3_5::with_experts(),
      &deepseek_v3::family(),
  };
  return kFamilies;
}

namespace {

Error unknown_architecture(const std::string& where, const char* field, const std::string& found) {
  std::string known;
  for (const Family* family : all_families()) known += cat(known.empty() ? "" : ", ", family->name);
  return error(ErrorKind::unsupported, where, ": ", field, " is ", printable(found), ": want one of ", known);
}

Result<const Family*> find_in_gguf(const Checkpoint& checkpoint) {
  TRY(const std::string architecture, checkpoint.metadata().get_string("general.architecture"));
  for (const Family* family : all_families())
    if (architecture == family->name) return family;
  return unknown_architecture(checkpoint.path(), "general.architecture", architecture);
}

Result<const Family*> find_in_hugging_face(const Checkpoint& checkpoint) {
  const std::string where = join_path(checkpoint.path(), "config.json");
  const Json* config = checkpoint.document("config.json");
  const Json* type = config == nullptr ? nullptr : config->find("model_type");
  if (type == nullptr || !type->is_string()) return error(ErrorKind::not_found, where, ": model_type is missing");
  for (const Family* family : all_families())
    if (std::ranges::find(family->model_types, type->as_string()) != family->model_types.end()) return family;
  return unknown_architecture(where, "model_type", type->as_string());
}

}  // namespace

Result<const Family*> find_family(const Checkpoint& checkpoint) {
  return checkpoint.dialect() == Dialect::gguf ? find_in_gguf(checkpoint) : find_in_hugging_face(checkpoint);
}

}  // namespace sluice

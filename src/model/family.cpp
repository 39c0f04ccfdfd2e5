#include "model/family.h"

#include <algorithm>
#include <iterator>
#include <string_view>

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

// Names for people of families that do not run, by how general.architecture or model_type begins.
struct OtherFamily {
  std::string_view begins;
  const char* title;
};
constexpr OtherFamily kOthers[] = {
    {"llama4", "Llama 4"},
    {"llama", "Llama"},
    {"mllama", "Llama"},
    {"mistral", "Mistral"},
    {"mixtral", "Mixtral"},
    {"gemma3", "Gemma 3"},
    {"gemma2", "Gemma 2"},
    {"gemma", "Gemma"},
    {"qwen3next", "Qwen3-Next"},
    {"qwen3_next", "Qwen3-Next"},
    {"qwen3", "Qwen3"},
    {"qwen2", "Qwen2"},
    {"phi", "Phi"},
    {"gpt-oss", "gpt-oss"},
    {"gpt_oss", "gpt-oss"},
    {"glm", "GLM"},
    {"granite", "Granite"},
    {"command", "Command"},
    {"cohere", "Command"},
    {"falcon", "Falcon"},
    {"olmo", "OLMo"},
    {"starcoder", "StarCoder"},
    {"bert", "BERT"},
    {"nomic-bert", "BERT"},
    {"whisper", "Whisper"},
    {"deepseek_v2", "DeepSeek-V2"},
    {"deepseek", "DeepSeek"},
    {"smollm", "SmolLM"},
    {"minimax", "MiniMax"},
    {"nemotron", "Nemotron"},
    {"kimi", "Kimi"},
    {"exaone", "EXAONE"},
};

// "Gemma 4, Qwen3.5/3.6 or DeepSeek-V3"
std::string known_titles() {
  std::vector<std::string> titles;
  for (const Family* family : all_families())
    if (std::ranges::find(titles, family->title) == titles.end()) titles.emplace_back(family->title);
  std::string out;
  for (size_t i = 0; i < titles.size(); ++i)
    out += cat(i == 0 ? "" : i + 1 == titles.size() ? " or " : ", ", titles[i]);
  return out;
}

Error unknown_architecture(const std::string& where, const char* field, const std::string& found) {
  const auto* other =
      std::ranges::find_if(kOthers, [&](const OtherFamily& one) { return starts_with(found, one.begins); });
  const std::string what = other == std::end(kOthers) ? "of another family" : cat("a ", other->title, " model");
  return error(ErrorKind::unsupported, where, ": ", what, " (", field, " is ", printable(found), "): want ",
               known_titles());
}

constexpr const char* kDraftModel = "a draft model: want the model that it drafts for, and --draft-model for this one";

// What a GGUF file is that is no model; "" of one that may be.
std::string other_contents(const std::string& architecture, const std::string& type) {
  if (type == "adapter") return "a LoRA adapter: want the model that it changes, and --adapter for this file";
  if (type == "imatrix") return "an importance matrix, which quantising takes: want the model that it was made of";
  if (is_draft_model(architecture)) return kDraftModel;
  if (architecture == "clip" || type == "mmproj")
    return "towers for pictures and sounds (mmproj): want the model that they belong to, and --mmproj for this file";
  return "";
}

Result<const Family*> find_in_gguf(const Checkpoint& checkpoint) {
  const Result<std::string> type = checkpoint.metadata().get_string("general.type");
  const Result<std::string> architecture = checkpoint.metadata().get_string("general.architecture");
  const std::string other = other_contents(architecture ? *architecture : "", type ? *type : "");
  if (!other.empty()) return error(ErrorKind::unsupported, checkpoint.path(), ": ", other);
  TRY_STATUS(architecture);
  for (const Family* family : all_families())
    if (*architecture == family->name) return family;
  return unknown_architecture(checkpoint.path(), "general.architecture", *architecture);
}

Result<const Family*> find_in_hugging_face(const Checkpoint& checkpoint) {
  const std::string where = join_path(checkpoint.path(), "config.json");
  const Json* config = checkpoint.document("config.json");
  const Json* type = config == nullptr ? nullptr : config->find("model_type");
  if (type == nullptr || !type->is_string()) return error(ErrorKind::not_found, where, ": model_type is missing");
  if (is_draft_model(type->as_string())) return error(ErrorKind::unsupported, checkpoint.path(), ": ", kDraftModel);
  for (const Family* family : all_families())
    if (std::ranges::find(family->model_types, type->as_string()) != family->model_types.end()) return family;
  return unknown_architecture(where, "model_type", type->as_string());
}

}  // namespace

bool is_draft_model(std::string_view type) {
  return std::ranges::any_of(all_families(), [&](const Family* family) {
    return std::ranges::find(family->draft_models, type) != family->draft_models.end();
  });
}

Result<const Family*> find_family(const Checkpoint& checkpoint) {
  return checkpoint.dialect() == Dialect::gguf ? find_in_gguf(checkpoint) : find_in_hugging_face(checkpoint);
}

}  // namespace sluice

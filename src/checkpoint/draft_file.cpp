#include "checkpoint/draft_file.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kFileMark = "mtp-";
constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr std::string_view kLayersKey = "block_count", kHeadsKey = "nextn_predict_layers";
constexpr std::string_view kBlock = "blk.";

// Whether two values of a key agree. In an array with one value for each layer, the head's values follow the model's.
bool agree(const GgufValue& model, const GgufValue& head) {
  if (model.index() != head.index()) return false;
  if (!is_array(model)) return model == head;
  return std::visit(
      [&](const auto& of_model) {
        using Value = std::decay_t<decltype(of_model)>;
        if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
          return false;
        } else {
          const auto& of_head = std::get<Value>(head);
          return of_head.size() >= of_model.size() && std::equal(of_model.begin(), of_model.end(), of_head.begin());
        }
      },
      model);
}

}  // namespace

bool is_draft_file_name(std::string_view path) {
  const std::string_view start = file_name(path).substr(0, kFileMark.size());
  return std::ranges::equal(start, kFileMark, [](unsigned char a, char mark) { return std::tolower(a) == mark; });
}

Result<DraftFileKeys> join_draft_keys(const GgufMetadata& model, const std::string& model_path,
                                      const GgufMetadata& head, const std::string& head_path) {
  TRY(const std::string architecture, model.get_string(kArchitectureKey));
  TRY(const std::string of_head, head.get_string(kArchitectureKey));
  const auto refuse = [&](auto&&... found) {
    return error(ErrorKind::invalid, head_path, ": ", found..., ": want a head for multi-token prediction of ",
                 model_path);
  };
  if (of_head != architecture) return refuse("is of the architecture ", printable(of_head));
  const std::string prefix = architecture + ".", layers_key = cat(prefix, kLayersKey),
                    heads_key = cat(prefix, kHeadsKey);
  if (head.find(heads_key) == nullptr) return refuse("has no key ", heads_key);
  TRY(const uint32_t layers, model.get_u32(layers_key));
  TRY(const uint32_t all_layers, head.get_u32(layers_key));
  TRY(const uint32_t heads, head.get_u32(heads_key));
  if (heads == 0 || all_layers < heads || all_layers - heads != layers)
    return refuse("has ", all_layers, " layers, ", heads, " of them of a head, where the model has ", layers);

  DraftFileKeys keys{.joined = GgufMetadata(model_path), .first_layer = layers};
  for (const auto& [name, value] : model.entries()) {
    const GgufValue* other = starts_with(name, prefix) ? head.find(name) : nullptr;
    if (other != nullptr && name != layers_key && name != heads_key && !agree(value, *other))
      return refuse("key ", printable(name), " differs from the model's");
    keys.joined.add(name, other == nullptr ? value : *other);
  }
  keys.joined.add(heads_key, *head.find(heads_key));
  return keys;
}

bool is_draft_tensor(std::string_view name, uint32_t first_layer) {
  if (!starts_with(name, kBlock)) return false;
  const std::string_view number = name.substr(kBlock.size(), name.find('.', kBlock.size()) - kBlock.size());
  const std::optional<int64_t> layer = parse_integer(number);
  return layer && *layer >= first_layer;
}

}  // namespace sluice
